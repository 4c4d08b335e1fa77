"""What the scheduler says of its decisions: `explain`, and the log of decisions."""

from __future__ import annotations

from tests.support.host_states import host_state
from tests.support.hosts import PINNED, PINNING, host
from tests.support.scheduling import HostsInMemory, scheduler, spec


def three_hosts() -> HostsInMemory:
    return HostsInMemory(
        [
            host_state("small", host(reserved_memory_mb=12 * 1024)),
            host_state("large"),
            host_state("pinning", host(numa=PINNING)),
        ]
    )


def test_every_host_is_explained_best_first_and_nothing_is_assumed():
    hosts = three_hosts()
    before = dict(hosts.states)
    wanted = spec(1, 8192, ignore_hosts=("pinning",))
    found = scheduler(hosts, filters=["ComputeFilter"]).explain(wanted)
    assert [(each.host, each.rank) for each in found.hosts] == [
        ("large", 1),
        ("pinning", None),
        ("small", None),
    ]
    large, pinning, small = found.hosts
    [weight] = large.weights
    assert (weight.weigher, large.weight) == ("RAMWeigher", weight.weight)
    assert large.capacity.free_memory_mb == 16384
    assert [each.filter for each in pinning.objections] == ["ignore_hosts"]
    [objection] = small.objections
    assert objection.filter == "fit"
    [reason] = objection.reasons
    assert (reason["resource"], reason["requested"], reason["available"]) == (
        "MEMORY_MB",
        8192,
        4096,
    )
    assert hosts.states == before


def test_a_host_is_explained_by_all_filters_that_refuse_it():
    found = scheduler(three_hosts(), filters=["NUMATopologyFilter"]).explain(
        spec(1, 512, extra_specs=PINNED, ignore_hosts=("small",))
    )
    small = next(each for each in found.hosts if each.host == "small")
    assert [each.filter for each in small.objections][:2] == ["ignore_hosts", "NUMATopologyFilter"]
    assert "cpu_dedicated_set" in small.objections[1].message
    assert found.hosts[0].host == "pinning"
