"""Selections with the defects of Nova's scheduler: what one choice leaves behind for the next."""

import pytest
from msgspec.structs import replace

from rtagent.model.host_report import HostUsage
from rtagent.model.server import InstanceGroup
from rtagent.ports import NullReporter
from rtagent.scheduler.errors import NoValidHost
from rtagent.scheduler.host_manager import HostManager
from rtagent.scheduler.host_state import HostState
from tests.support.hosts import PINNED, PINNING, ManualClock, host, request, uid
from tests.support.numa_hosts import HUGE, LARGE, cell, topology
from tests.support.reporting_agents import ReportingAgent, deliver, reported
from tests.support.scheduling import scheduler, spec


def usages(manager: HostManager) -> list[object]:
    return [(each.replica.usage, each.replica.units) for each in manager.get_all_host_states()]


def with_pages(name: str, huge: dict[int, int]) -> ReportingAgent:
    """Return an agent with 1 GB in pages of one size."""
    return ReportingAgent(name, host(topology(cell(0, memory_mb=4096, huge=huge))))


def test_state_that_a_request_has_read_does_not_change():
    """Nova's host manager changes the states of hosts in place."""
    manager = reported(ReportingAgent("cn1"))
    (read,) = listed = manager.get_all_host_states()
    before = replace(read)
    scheduler(manager).select_destinations(spec(1, 64), [uid()])
    assert read == before and listed == (before,)


def test_counters_and_supported_instances_may_be_empty():
    """One row with NULL where a document is expected ended the request."""
    manager = HostManager(ManualClock(), NullReporter(), lambda _: None)
    agent = ReportingAgent("cn1")
    report = agent.host_report(revision=3, counters={}, usage=HostUsage(), metrics=())
    manager.update_host_state(report)
    (seen,) = manager.get_all_host_states()
    assert (seen.num_instances, seen.num_io_ops, seen.supported_instances) == (0, 0, ())
    assert seen.stats == {"io_workload": 0, "failed_builds": 0} and seen.cpu_info == {}


def test_the_page_size_of_one_instance_is_not_handed_to_the_next():
    agents = with_pages("cn1", {LARGE: 512}), with_pages("cn2", {HUGE: 1})
    manager = reported(*agents)
    wanted = spec(1, 1024, 0, extra_specs={"hw:mem_page_size": "large"})
    filters = ["NUMATopologyFilter"]
    found = scheduler(manager, filters=filters).select_destinations(wanted, [uid(), uid()])
    assert {each.selected.host for each in found} == {"cn1", "cn2"}
    sizes = {
        cell.pagesize
        for each in manager.get_all_host_states()
        for claim in each.replica.claims.values()
        for cell in claim.numa_topology.cells
    }
    assert sizes == {LARGE, HUGE}


def test_members_that_were_chosen_by_a_failed_request_are_not_on_their_hosts():
    manager = reported(ReportingAgent("cn1"), ReportingAgent("cn2"))
    members = [uid() for _ in range(3)]
    group = InstanceGroup(uuid=uid(), policy="anti-affinity", members=tuple(members))
    wanted = spec(1, 512, instance_group=group)
    chooser = scheduler(manager, filters=["ServerGroupAntiAffinityFilter"])
    with pytest.raises(NoValidHost, match="ServerGroupAntiAffinityFilter refused 2"):
        chooser.select_destinations(wanted, members)
    assert wanted.instance_group == group
    assert not any(each.instances for each in manager.get_all_host_states())
    found = chooser.select_destinations(wanted, members[1:])
    assert {each.selected.host for each in found} == {"cn1", "cn2"}


def test_an_affinity_group_without_members_is_kept_together():
    manager = reported(*(ReportingAgent(f"cn{number}") for number in range(3)))
    group = InstanceGroup(uuid=uid(), policy="affinity")
    chooser = scheduler(manager, filters=["ServerGroupAffinityFilter"])
    found = chooser.select_destinations(
        spec(1, 512, instance_group=group), [uid(), uid(), uid()], alternates=True
    )
    assert len({each.selected.host for each in found}) == 1
    assert not any(each.alternates for each in found)


class ChangedMeanwhile:
    """A manager in whose hosts a guest arrives between the filters and the claim."""

    def __init__(self, manager: HostManager, agent: ReportingAgent) -> None:
        self._manager, self._agent, self._arrived = manager, agent, False

    def __getattr__(self, name: str):
        return getattr(self._manager, name)

    def get_host_state(self, node_uuid: str) -> HostState | None:
        if not self._arrived:
            self._arrived = True
            assert self._agent.claim(request(4, 512, extra_specs=PINNED))
            deliver(self._manager, *self._agent.messages())
        return self._manager.get_host_state(node_uuid)


def test_a_claim_that_does_not_fit_any_more_leaves_nothing_counted():
    agent = ReportingAgent("cn1", host(numa=PINNING))
    manager = reported(agent)
    changing = ChangedMeanwhile(manager, agent)
    wanted = spec(4, 512, 1, extra_specs=PINNED)
    with pytest.raises(NoValidHost, match="fit refused 1"):
        scheduler(changing, filters=["NUMATopologyFilter"]).select_destinations(wanted, [uid()])
    [left] = manager.get_all_host_states()
    assert left.replica.usage == agent.state.usage
    assert (left.capacity.free_memory_mb, left.disk_mb_used) == (16384 - 512, 0)


def test_a_report_does_not_make_requests_in_flight_forgotten():
    agents = ReportingAgent("cn1"), ReportingAgent("cn2")
    manager = reported(*agents)
    chooser = scheduler(manager)
    [first] = chooser.select_destinations(spec(1, 9000), [uid()])
    for agent in agents:
        agent.state = replace(agent.state, revision=agent.state.revision + 1)
        deliver(manager, *agent.messages())
    [second] = chooser.select_destinations(spec(1, 9000), [uid()])
    assert {first.selected.host, second.selected.host} == {"cn1", "cn2"}
    with pytest.raises(NoValidHost):
        chooser.select_destinations(spec(1, 9000), [uid()])


def test_an_instance_without_a_host_takes_back_what_the_others_were_given():
    manager = reported(ReportingAgent("cn1", host(numa=PINNING)))
    before = usages(manager)
    with pytest.raises(NoValidHost):
        scheduler(manager).select_destinations(
            spec(2, 512, extra_specs=PINNED), [uid() for _ in range(4)]
        )
    assert usages(manager) == before
