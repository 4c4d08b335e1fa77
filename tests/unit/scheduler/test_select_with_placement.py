"""Selections with Placement, which takes its time."""

from __future__ import annotations

from rtagent.conf.scheduler import SchedulerOptions
from rtagent.scheduler.ports import Candidates, Written
from tests.support.host_states import host_state
from tests.support.hosts import host, uid
from tests.support.scheduling import HostsInMemory, scheduler, spec


class SlowPlacement:
    """Placement, which has one candidate on each host. An instance of 14 GB is selected before it
    answers.

    :ivar timeout: until the query had to be sent.
    """

    def __init__(self, hosts: HostsInMemory):
        self._hosts = hosts

    def allocation_candidates(self, query, timeout):
        self.timeout = timeout
        scheduler(self._hosts).select_destinations(spec(1, 14 * 1024), [uid()])
        resources = {"VCPU": 1, "MEMORY_MB": 512, "DISK_GB": 1}
        return Candidates(
            requests=tuple(
                {"allocations": {uuid: {"resources": resources}}} for uuid in self._hosts.states
            )
        )

    def write(self, request):
        return Written(
            consumer_uuid=request.consumer_uuid,
            before={},
            allocations=request.allocations,
            generation=1,
        )

    def undo(self, written):
        raise AssertionError("nothing is given back")


def test_hosts_are_weighed_as_they_are_after_placement_has_answered():
    small = host_state("cn1", host(reserved_memory_mb=12 * 1024))
    hosts = HostsInMemory([small, host_state("cn2")])
    placement = SlowPlacement(hosts)
    [found] = scheduler(hosts, placement=placement).select_destinations(spec(1, 512), [uid()])
    assert found.selected.host == "cn1"


def test_a_query_is_sent_while_there_is_time_for_its_answer():
    hosts = HostsInMemory([host_state("cn1")])
    placement, options = SlowPlacement(hosts), SchedulerOptions(request_timeout=20)
    scheduler(hosts, options=options, placement=placement).select_destinations(
        spec(1, 512), [uid()]
    )
    assert placement.timeout == 10
