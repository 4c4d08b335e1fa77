"""What the scheduler says of its decisions: `explain`, and the log of decisions."""

from __future__ import annotations

import pytest

from rtagent.errors import PlacementUnavailable
from rtagent.scheduler.errors import NoValidHost
from rtagent.scheduler.select import KEPT, MAX_CHOICES, Choice, DecisionLog, LoggedDecision
from tests.support.host_states import host_state
from tests.support.hosts import NOON, PINNED, PINNING, host, uid
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


def test_decisions_are_logged_with_their_reasons_newest_first():
    hosts = three_hosts()
    chooser = scheduler(hosts)
    [found] = chooser.select_destinations(spec(1, 512), [uid()], alternates=True)
    with pytest.raises(NoValidHost):
        chooser.select_destinations(spec(1, 1024 * 1024), [uid()])
    refused, made = chooser.decisions()
    assert (refused.choices, refused.refused) == ((), {"fit": 3})
    assert "MEMORY_MB: 1048576 MB requested" in str(refused.error)
    [choice] = made.choices
    assert (choice.host, choice.operation_id) == (found.selected.host, found.selected.operation_id)
    assert choice.alternates == tuple(each.host for each in found.alternates)
    assert made.hosts == 3


class AwayPlacement:
    """Placement, which does not answer."""

    def allocation_candidates(self, query, timeout):
        raise PlacementUnavailable("GET /allocation_candidates: timed out")


def test_a_request_that_fails_before_a_host_is_judged_is_logged():
    chooser = scheduler(three_hosts(), placement=AwayPlacement())
    with pytest.raises(PlacementUnavailable):
        chooser.select_destinations(spec(1, 512, purpose="resize"), [uid()])
    [logged] = chooser.decisions()
    assert (logged.purpose, logged.hosts, logged.choices, logged.refused) == ("resize", 0, (), {})
    assert "timed out" in str(logged.error)


def test_the_log_of_large_requests_is_bounded():
    log = DecisionLog()
    choice = Choice(instance_uuid=uid(), host="h", nodename="n", operation_id=uid(), weight=0.0)

    def decision(instances):
        return LoggedDecision(
            at=NOON,
            purpose="build",
            flavor="f",
            instances=instances,
            seconds=0.0,
            hosts=1,
            refused={},
            choices=(choice,) * instances,
        )

    for instances in (1, *[1000] * (MAX_CHOICES // 1000)):
        log.add(decision(instances))
    assert [each.instances for each in log.newest_first()] == [1000] * (MAX_CHOICES // 1000)
    log.add(decision(MAX_CHOICES + 1))  # the last one is shown in any case
    assert len(log.newest_first()) == 1


def test_the_log_is_bounded():
    chooser = scheduler(HostsInMemory([]))
    for _ in range(KEPT + 1):
        with pytest.raises(NoValidHost, match="no host is known"):
            chooser.select_destinations(spec(), [uid()])
    assert len(chooser.decisions()) == KEPT
