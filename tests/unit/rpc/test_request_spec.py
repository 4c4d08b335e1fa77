"""The request spec of `select_destinations`: its bounds, and its hints."""

from __future__ import annotations

from typing import Any

import pytest

from rtagent.errors import InvalidRequest
from rtagent.model.server import RequestSpec
from rtagent.rpc.methods import SCHEDULER_API
from rtagent.rpc.scheduler_endpoint import SelectDestinations
from rtagent.rpc.validation import validate
from tests.support.hosts import uid
from tests.support.rpc_documents import jsonpath
from tests.support.scheduler_rpc import spec

SELECT = SCHEDULER_API.methods["select_destinations"]


def _accept(spec: Any) -> RequestSpec:
    arguments = validate(SELECT, {"request_spec": spec, "instance_uuids": [uid(1)]})
    assert isinstance(arguments, SelectDestinations)
    return arguments.request_spec


@pytest.mark.parametrize(
    ("wrong", "path", "message"),
    [
        ({"image": {"min_ram": 1.0}}, ("image", "min_ram"), "must be an integer, not a number"),
        ({"purpose": "rebuild"}, ("purpose",), "must be one of"),
        (
            {"requested_resources": [{"requester_id": "a b"}]},
            ("requested_resources", 0, "requester_id"),
            "letters, digits, underscores",
        ),
        (
            {"requested_resources": [{"requester_id": "a\n"}]},
            ("requested_resources", 0, "requester_id"),
            "letters, digits, underscores",
        ),
        ({"required_traits": ["hw-avx"]}, ("required_traits", 0), "upper-case letters"),
        (
            {"requested_destination": {"aggregates": [f"{uid(2)}, {uid(3)}"]}},
            ("requested_destination", "aggregates", 0),
            "uuids joined by",
        ),
        (
            {"requested_destination": {"aggregates": [f"{uid(2)}\n"]}},
            ("requested_destination", "aggregates", 0),
            "uuids joined by",
        ),
        (
            {"instance_group": {"policy": "affinity", "rules": {"max_server_per_host": 0}}},
            ("instance_group", "rules", "max_server_per_host"),
            "must be at least 1",
        ),
        ({"user_id": "a\0b"}, ("user_id",), "text that can be stored"),
        ({"retry": 1}, ("retry",), "is not a field here"),
    ],
)
def test_mistake_is_explained(wrong, path, message):
    with pytest.raises(InvalidRequest) as refused:
        _accept(spec(**wrong))
    (error,) = refused.value.kwargs["errors"]
    assert error["path"] == jsonpath(("request_spec", *path))
    assert message in error["message"]


@pytest.mark.parametrize(
    "hints", [None, {}, {"same_host": None}, {"same_host": []}, {"same_host": ""}]
)
def test_a_hint_without_a_value_is_no_hint(hints):
    accepted = _accept(spec(scheduler_hints=hints))
    assert accepted.hint("same_host") == ()


def test_a_hint_has_one_or_more_values():
    hints = {"one": "a", "two": ["a", "", "b"]}
    accepted = _accept(spec(scheduler_hints=hints))
    assert accepted.hint("one") == ("a",)
    assert accepted.hint("two") == ("a", "b")
