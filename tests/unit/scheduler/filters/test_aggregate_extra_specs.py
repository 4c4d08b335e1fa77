"""AggregateInstanceExtraSpecsFilter: extra specs about metadata of aggregates."""

from __future__ import annotations

import pytest

from rtagent.errors import InvalidRequest
from rtagent.scheduler.filters.aggregates import AggregateInstanceExtraSpecsFilter
from tests.support.host_states import aggregate, host_state
from tests.support.scheduling import passes, scheduler_request, why_not

HOST = host_state(
    aggregates=[
        aggregate("fast", ssd="true", level="3, 5", zone_of="a"),
        aggregate("slow", level="1"),
    ]
)
SCOPE = "aggregate_instance_extra_specs"


@pytest.mark.parametrize(
    ("extra_specs", "passing"),
    [
        ({}, True),
        ({f"{SCOPE}:ssd": "true"}, True),
        ({f"{SCOPE}:ssd": "false"}, False),
        ({"ssd": "true"}, True),
        ({"missing": "true"}, False),
        ({f"{SCOPE}:level": ">= 5"}, True),
        ({f"{SCOPE}:level": ">= 6"}, False),
        ({f"{SCOPE}:level": "<or> 3 <or> 4"}, True),
        ({f"{SCOPE}:level": "s== 1"}, True),
        ({f"{SCOPE}:ssd": "true", f"{SCOPE}:level": "2"}, False),
        ({"hw:cpu_policy": "dedicated"}, True),
    ],
)
def test_one_value_of_the_aggregates_has_to_satisfy_the_rule(extra_specs, passing):
    request = scheduler_request(extra_specs=extra_specs)
    assert passes(AggregateInstanceExtraSpecsFilter, HOST, request) is passing


def test_a_key_may_have_colons():
    host = host_state(aggregates=[aggregate("fast", **{"disk:kind": "ssd"})])
    request = scheduler_request(extra_specs={f"{SCOPE}:disk:kind": "ssd"})
    assert passes(AggregateInstanceExtraSpecsFilter, host, request)


def test_a_value_that_is_no_number_sets_the_host_aside():
    host = host_state(aggregates=[aggregate("a", level="9"), aggregate("b", level="many")])
    request = scheduler_request(extra_specs={f"{SCOPE}:level": ">= 1"})
    refused = why_not(AggregateInstanceExtraSpecsFilter, host, request)
    assert refused == "level has to be >= 1, and a value is no number: 9, many"


def test_a_rejection_says_what_the_aggregates_have():
    request = scheduler_request(extra_specs={f"{SCOPE}:level": ">= 6"})
    refused = why_not(AggregateInstanceExtraSpecsFilter, HOST, request)
    assert refused == "level has to be >= 6, and the aggregates have 1, 3, 5"


def test_a_malformed_rule_is_an_error_of_the_request():
    with pytest.raises(InvalidRequest):
        passes(
            AggregateInstanceExtraSpecsFilter,
            HOST,
            scheduler_request(extra_specs={f"{SCOPE}:level": ">= many"}),
        )
