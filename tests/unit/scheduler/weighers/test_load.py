"""IoOpsWeigher, NumInstancesWeigher, BuildFailureWeigher and HypervisorVersionWeigher."""

import pytest

from rtagent.conf.filter_scheduler import FilterOptions
from rtagent.scheduler.weighers import (
    BuildFailureWeigher,
    HypervisorVersionWeigher,
    IoOpsWeigher,
    NumInstancesWeigher,
)
from tests.support.host_states import aggregate, host_state
from tests.support.scheduling import weigh, weights


@pytest.mark.parametrize(
    ("weigher", "field", "expected"),
    [
        (IoOpsWeigher, "num_io_ops", {"a": -0.5, "b": -1.0}),
        (HypervisorVersionWeigher, "hypervisor_version", {"b": 1.0, "a": 0.0}),
        (BuildFailureWeigher, "failed_builds", {"a": 0.0, "b": -1000000.0}),
    ],
)
def test_by_default(weigher, field, expected):
    hosts = [host_state("b", **{field: 4}), host_state("a", **{field: 2})]

    assert list(weights(weigher, hosts).items()) == list(expected.items())


def test_number_of_instances_counts_only_with_a_multiplier():
    hosts = [host_state("a", num_instances=2), host_state("b", num_instances=4)]
    options = FilterOptions(num_instances_weight_multiplier=3.0)

    assert weigh(NumInstancesWeigher, hosts).scores()[hosts[0].uuid] == ()
    assert weights(NumInstancesWeigher, hosts, options) == {"b": 3.0, "a": 0.0}


def test_multiplier_of_failed_builds_is_subtracted_also_that_of_an_aggregate():
    brave = aggregate("brave", "b", build_failure_weight_multiplier="10")
    hosts = [
        host_state("a", failed_builds=0),
        host_state("b", failed_builds=4, aggregates=[brave]),
        host_state("c", failed_builds=4),
    ]

    assert weights(BuildFailureWeigher, hosts) == {"a": 0.0, "b": -10.0, "c": -1000000.0}
