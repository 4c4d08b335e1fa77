"""JsonFilter: the hint ``query``."""

from __future__ import annotations

import json

import pytest

from rtagent.errors import InvalidRequest
from rtagent.scheduler.filters.json_query import JsonFilter
from tests.support.host_states import host_state
from tests.support.scheduling import passes, scheduler_request


def _request(query):
    text = query if isinstance(query, str) else json.dumps(query)
    return scheduler_request(hints={"query": text})


def test_a_host_that_satisfies_the_query_passes():
    query = ["and", [">=", "$free_ram_mb", 1024], ["not", ["=", "$host", "cn2"]]]
    assert passes(JsonFilter, host_state("cn1", free_ram_mb=1024), _request(query))
    assert not passes(JsonFilter, host_state("cn1", free_ram_mb=1023), _request(query))
    assert not passes(JsonFilter, host_state("cn2", free_ram_mb=1024), _request(query))


@pytest.mark.parametrize("hints", [None, {}, {"query": None}, {"query": ""}, {"query": []}])
def test_without_a_query_every_host_passes(hints):
    assert passes(JsonFilter, host_state(), scheduler_request(hints=hints))


@pytest.mark.parametrize("query", ["[]", "null", '["maybe", 1, 1]', '["and"]', '["not", []]'])
def test_a_malformed_query_is_an_error_of_the_request(query):
    with pytest.raises(InvalidRequest, match=r"\$\.request_spec\.scheduler_hints\.query"):
        passes(JsonFilter, host_state(), _request(query))


def test_several_queries_are_an_error_of_the_request():
    with pytest.raises(InvalidRequest, match="one query"):
        passes(JsonFilter, host_state(), scheduler_request(hints={"query": ["[1]", "[2]"]}))
