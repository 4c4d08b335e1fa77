"""Limits of instances and of instances with I/O, by option and by aggregate."""

from __future__ import annotations

import pytest

from rtagent.scheduler.filters.hosts import (
    AggregateIoOpsFilter,
    AggregateNumInstancesFilter,
    IoOpsFilter,
    NumInstancesFilter,
)
from tests.support.host_states import aggregate, host_state
from tests.support.scheduling import passes, scheduler_request, why_not

INSTANCES = ("num_instances", "max_instances_per_host")
IO_OPS = ("num_io_ops", "max_io_ops_per_host")


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        (NumInstancesFilter, INSTANCES),
        (AggregateNumInstancesFilter, INSTANCES),
        (IoOpsFilter, IO_OPS),
        (AggregateIoOpsFilter, IO_OPS),
    ],
)
def test_a_host_with_fewer_than_the_option_passes(kind, names):
    field, option = names
    for number, passing in ((2, True), (3, False), (4, False)):
        host = host_state(**{field: number})
        assert passes(kind, host, scheduler_request(), **{option: 3}) is passing


@pytest.mark.parametrize(
    ("kind", "names"), [(AggregateNumInstancesFilter, INSTANCES), (AggregateIoOpsFilter, IO_OPS)]
)
@pytest.mark.parametrize(
    ("values", "limit"), [(["5"], 5), (["100"], 100), (["100", "20", "30"], 20), (["0"], 0)]
)
def test_the_least_value_of_the_aggregates_comes_before_the_option(kind, names, values, limit):
    field, option = names
    aggregates = [aggregate(f"a{at}", **{option: value}) for at, value in enumerate(values)]
    full = host_state(aggregates=aggregates, **{field: limit})
    assert not passes(kind, full, scheduler_request(), **{option: 50})
    if limit:
        free = host_state(aggregates=aggregates, **{field: limit - 1})
        assert passes(kind, free, scheduler_request(), **{option: 3})


@pytest.mark.parametrize(
    ("kind", "names"), [(AggregateNumInstancesFilter, INSTANCES), (AggregateIoOpsFilter, IO_OPS)]
)
@pytest.mark.parametrize("value", ["", "many", "1.5", "5,6"])
def test_a_value_that_is_no_whole_number_sets_the_host_aside(kind, names, value):
    field, option = names
    aggregates = [aggregate("good", **{option: "50"}), aggregate("bad", **{option: value})]
    host = host_state(aggregates=aggregates, **{field: 0})
    refused = why_not(kind, host, scheduler_request())
    assert refused == f"{option} of its aggregate bad is not a whole number"


def test_a_rejection_has_both_numbers():
    host = host_state(num_instances=50)
    assert why_not(NumInstancesFilter, host, scheduler_request()) == (
        "it has 50 instances, of 50 at most"
    )
