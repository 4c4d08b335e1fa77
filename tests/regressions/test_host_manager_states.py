"""Nova's host manager builds the states of hosts anew for each request, and changes them in place.

So it forgets what requests in flight have consumed, a consumption that fails half-way leaves RAM,
disk and vCPUs counted, and one row with NULL where a document is expected ends the request.
"""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from rtagent.errors import NodeNotFound
from rtagent.model.host_report import HostUsage
from rtagent.ports import NullReporter
from rtagent.scheduler.host_manager import HostManager
from tests.support.hosts import PINNED, PINNING, ManualClock, host, request, uid
from tests.support.reporting_agents import ReportingAgent, assumable, deliver


@pytest.fixture
def manager() -> HostManager:
    return HostManager(ManualClock(), NullReporter(), lambda _: None)


def test_request_sees_what_a_request_in_flight_has_consumed(manager):
    agent = ReportingAgent()
    deliver(manager, *agent.messages())
    for number in range(1, 9):  # the host has 8 CPUs
        (seen,) = manager.get_all_host_states()
        claim = assumable(seen.replica, request(1, 64))
        assert claim is not None
        manager.assume(seen.uuid, claim, here=True)
        deliver(manager, agent.report())  # of before these requests
        (seen,) = manager.get_all_host_states()
        assert seen.vcpus_used == number
    assert assumable(seen.replica, request(1, 64)) is None


def test_state_that_a_request_has_read_does_not_change(manager):
    agent = ReportingAgent()
    deliver(manager, *agent.messages())
    (read,) = listed = manager.get_all_host_states()
    before = replace(read)
    claim = assumable(read.replica, request(1, 64))
    manager.assume(read.uuid, claim, here=True)
    assert read == before and listed == (before,)


def test_failed_consumption_leaves_nothing_counted(manager):
    agent = ReportingAgent(state=host(numa=PINNING))
    deliver(manager, *agent.messages())
    (before,) = manager.get_all_host_states()
    claim = assumable(before.replica, request(2, 64, 1, extra_specs=PINNED))
    with pytest.raises(NodeNotFound):
        manager.assume(uid(), claim, here=True)
    assert manager.get_all_host_states() == (before,)
    assert claim is not None
    manager.assume(agent.uuid, claim, here=True)
    manager.forget_claim(claim.uuid)  # another instance of the request found no host
    (after,) = manager.get_all_host_states()
    assert replace(after, version=before.version) == before


def test_counters_and_supported_instances_may_be_empty(manager):
    agent = ReportingAgent()
    report = agent.host_report(revision=3, counters={}, usage=HostUsage(), metrics=())
    manager.update_host_state(report)
    (seen,) = manager.get_all_host_states()
    assert (seen.num_instances, seen.num_io_ops, seen.supported_instances) == (0, 0, ())
    assert seen.stats == {"io_workload": 0, "failed_builds": 0} and seen.cpu_info == {}
