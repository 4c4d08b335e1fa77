"""AggregateTypeAffinityFilter: aggregates for certain flavors."""

from __future__ import annotations

import pytest

from rtagent.scheduler.filters.aggregates import AggregateTypeAffinityFilter
from tests.support.host_states import aggregate, host_state
from tests.support.scheduling import passes, scheduler_request, why_not

HOST = host_state(
    aggregates=[
        aggregate("a", instance_type="m1.small, m1.large"),
        aggregate("b", instance_type="c"),
    ]
)


@pytest.mark.parametrize(
    ("flavor", "passing"), [("m1.small", True), ("m1.large", True), ("c", True), ("m1", False)]
)
def test_only_the_flavors_of_the_aggregates_get_the_host(flavor, passing):
    request = scheduler_request(flavor=flavor)
    assert passes(AggregateTypeAffinityFilter, HOST, request) is passing


def test_a_rejection_names_the_flavors():
    refused = why_not(AggregateTypeAffinityFilter, HOST, scheduler_request(flavor="m2"))
    assert refused == "its aggregates are for the flavors c, m1.large, m1.small"


@pytest.mark.parametrize("aggregates", [(), (aggregate("a", ssd="true"),)])
def test_a_host_without_such_aggregates_is_for_every_flavor(aggregates):
    host = host_state(aggregates=aggregates)
    assert passes(AggregateTypeAffinityFilter, host, scheduler_request(flavor="m2"))
