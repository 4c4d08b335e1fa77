"""AggregateMultiTenancyIsolation: aggregates for certain tenants."""

from __future__ import annotations

import pytest

from rtagent.scheduler.filters.aggregates import AggregateMultiTenancyIsolation
from tests.support.host_states import aggregate, host_state
from tests.support.scheduling import passes, scheduler_request, why_not

ISOLATED = host_state(
    aggregates=[
        aggregate("a", filter_tenant_id="blue, green", ssd="true"),
        aggregate("b", filter_tenant_id2="red"),
    ]
)


@pytest.mark.parametrize(
    ("project", "passing"),
    [("blue", True), ("green", True), ("red", True), ("yellow", False), (None, False)],
)
def test_only_the_tenants_of_the_aggregates_get_the_host(project, passing):
    request = scheduler_request(project_id=project)
    assert passes(AggregateMultiTenancyIsolation, ISOLATED, request) is passing


def test_a_rejection_names_the_tenant():
    refused = why_not(
        AggregateMultiTenancyIsolation, ISOLATED, scheduler_request(project_id="yellow")
    )
    assert refused == "its aggregates are for other tenants than yellow"


@pytest.mark.parametrize("aggregates", [(), (aggregate("a", ssd="true"),)])
def test_a_host_that_is_not_isolated_is_for_every_tenant(aggregates):
    host = host_state(aggregates=aggregates)
    assert passes(AggregateMultiTenancyIsolation, host, scheduler_request(project_id="yellow"))
