"""Selection of hosts, without Placement."""

import pytest
from msgspec.structs import replace

from rtagent.conf.scheduler import SchedulerOptions
from rtagent.errors import InvalidFlavor, InvalidRequest
from rtagent.model.host_report import InstanceInfo
from rtagent.model.server import InstanceGroup, RequestSpec
from rtagent.scheduler.claim_template import NO_OWNER
from rtagent.scheduler.errors import NoValidHost, SchedulingTimedOut
from rtagent.scheduler.host_state import HostState
from rtagent.scheduler.replica import OTHERS, SHARED
from tests.support.claims import pinned_claim
from tests.support.host_states import host_state
from tests.support.hosts import ManualClock, host, uid
from tests.support.scheduling import HostsInMemory, scheduler, spec

GROUP_FILTERS = ("ServerGroupAffinityFilter", "ServerGroupAntiAffinityFilter")
SMALL = host(reserved_memory_mb=12 * 1024)


def two_hosts() -> HostsInMemory:
    """Return cn1 with 4 GB of memory for guests, and cn2 with 16 GB."""
    return HostsInMemory([host_state("cn1", SMALL), host_state("cn2")])


def test_a_plain_instance_is_selected_and_its_claim_assumed():
    hosts, clock, owner = two_hosts(), ManualClock(seconds=100), uid()
    [found] = scheduler(hosts, clock).select_destinations(spec(2, 4096, 10), [owner])
    selected = found.selected
    assert (found.instance_uuid, selected.host, found.alternates) == (owner, "cn2", ())
    assert selected.nodename == "cn2.example"
    claim = hosts.assumed[selected.operation_id]
    assert (claim.owner_id, claim.node_uuid) == (owner, selected.provider_uuid)
    assert (claim.vcpus, claim.memory_mb, claim.disk_mb) == (2, 4096, 10 * 1024)
    assert hosts.until == {selected.operation_id: 130}


def test_the_assumed_claim_is_of_this_request_though_the_verdict_is_of_an_equal_one():
    hosts = two_hosts()
    chooser = scheduler(hosts)
    first, second = (
        replace(wanted, flavor=replace(wanted.flavor, name=wanted.project_id))
        for wanted in (spec(project_id="a"), spec(project_id="b"))
    )
    chooser.explain(first)
    chooser.select_destinations(second, [uid()])
    [claim] = hosts.assumed.values()
    assert (claim.flavor.name, claim.instance.project_id) == ("b", "b")


def test_a_second_request_for_an_instance_replaces_the_first_whose_answer_was_lost():
    hosts, owner = two_hosts(), uid()
    for _ in range(2):
        [found] = scheduler(hosts).select_destinations(spec(2, 16384), [owner])
        assert list(hosts.assumed) == [found.selected.operation_id]


def test_alternates_are_other_hosts_with_operation_ids_of_their_own():
    hosts = HostsInMemory(host_state(f"cn{number}") for number in range(5))
    chooser = scheduler(hosts, options=SchedulerOptions(max_attempts=3))
    found = chooser.select_destinations(spec(), [uid(), uid()], alternates=True)
    tried = [(each.selected, *each.alternates) for each in found]
    assert [len({each.host for each in hosts}) for hosts in tried] == [3, 3]
    assert len({each.operation_id for hosts in tried for each in hosts}) == 6
    assert set(hosts.assumed) == {each.selected.operation_id for each in found}


def test_without_a_claim_nothing_is_assumed():
    hosts = two_hosts()
    scheduler(hosts).select_destinations(spec(), [uid()], claim=False)
    assert not hosts.assumed


def test_no_valid_host_counts_refusals_and_names_the_nearest_miss():
    hosts = two_hosts()
    with pytest.raises(NoValidHost) as caught:
        scheduler(hosts).select_destinations(spec(1, 16 * 1024 + 1), [uid()])
    error = caught.value.kwargs
    assert (error["hosts"], error["refused"]) == (2, {"fit": 2})
    assert error["nearest"]["host"] == "cn2"
    assert error["nearest"]["reasons"][0]["requested"] == 16385
    miss = "of 2 hosts, fit refused 2; the nearest miss is cn2.example: MEMORY_MB: 16385"
    assert miss in str(caught.value)


def test_no_valid_host_names_the_claims_of_the_instance():
    hosts, owner = two_hosts(), uid()
    chooser = scheduler(hosts)
    [built] = chooser.select_destinations(spec(), [owner])
    for ignored, claims in ((), [built.selected.operation_id]), ((built.selected.host,), []):
        huge = spec(1, 999_999, purpose="resize", ignore_hosts=ignored)
        with pytest.raises(NoValidHost) as caught:
            chooser.select_destinations(huge, [owner])
        assert caught.value.kwargs["own_claims"] == claims


def test_a_request_that_is_invalid_on_every_host_is_an_error_of_its_own():
    chooser = scheduler(two_hosts())
    with pytest.raises(InvalidFlavor, match="hw:numa_nodes=no"):
        chooser.select_destinations(spec(extra_specs={"hw:numa_nodes": "no"}), [uid()])
    [logged] = chooser.decisions()
    assert (logged.hosts, logged.choices) == (0, ()) and "hw:numa_nodes" in str(logged.error)


def test_a_request_whose_last_step_takes_too_long_leaves_nothing():
    class SlowHosts(HostsInMemory):
        def assume(self, node_uuid, claim, here):
            clock.advance(31)
            return super().assume(node_uuid, claim, here)

    clock, hosts = ManualClock(), SlowHosts([host_state("cn1")])
    with pytest.raises(SchedulingTimedOut):
        scheduler(hosts, clock).select_destinations(spec(), [uid()])
    assert not hosts.assumed


def test_a_resize_keeps_the_assumed_claim_of_the_build_before_it():
    hosts, owner = two_hosts(), uid()
    chooser = scheduler(hosts)
    [built] = chooser.select_destinations(spec(2, 512), [owner])
    elsewhere = spec(4, 512, purpose="resize", ignore_hosts=(built.selected.host,))
    [resized] = chooser.select_destinations(elsewhere, [owner])
    assert set(hosts.assumed) == {built.selected.operation_id, resized.selected.operation_id}
    dest = hosts.states[resized.selected.provider_uuid]
    assert not dest.instances[owner].here, "it arrives with the report of the agent"


@pytest.mark.parametrize(
    ("uuids", "purpose", "message"),
    [
        ([], "build", "names no instance"),
        ([uid(3), uid(3)], "build", "names an instance twice"),
        ([uid(3), OTHERS], "build", f"{OTHERS} is reserved"),
        ([NO_OWNER], "build", f"{NO_OWNER} is reserved"),
        ([SHARED], "resize", f"{SHARED} is reserved"),
        ([uid(3), uid(4)], "live-migration", "a live-migration is of one instance"),
    ],
)
def test_instances_that_cannot_be_selected_for(uuids, purpose, message):
    assert len({NO_OWNER, OTHERS, SHARED}) == 3
    with pytest.raises(InvalidRequest, match=message) as refused:
        scheduler(two_hosts()).select_destinations(spec(purpose=purpose), uuids)
    assert refused.value.kwargs["errors"][0]["path"] == "$.instance_uuids"


def in_group(policy: str, *members: str, hosts: tuple[str, ...] = ()) -> RequestSpec:
    return spec(instance_group=InstanceGroup(policy=policy, members=members, hosts=hosts))


@pytest.mark.parametrize("policy", ["affinity", "anti-affinity"])
def test_one_instance_of_a_group_has_alternates_as_if_it_were_not_selected_yet(policy):
    hosts, owner = HostsInMemory(host_state(f"cn{number}") for number in range(4)), uid()
    chooser = scheduler(hosts, options=SchedulerOptions(max_attempts=3), filters=GROUP_FILTERS)
    [found] = chooser.select_destinations(in_group(policy, owner), [owner], alternates=True)
    names = {found.selected.host, *(each.host for each in found.alternates)}
    assert len(names) == 3


def test_alternates_of_an_anti_affinity_group_are_on_no_host_that_one_of_its_instances_gets():
    hosts, owners = HostsInMemory(host_state(f"cn{number}") for number in range(4)), [uid(), uid()]
    chooser = scheduler(hosts, options=SchedulerOptions(max_attempts=4), filters=GROUP_FILTERS)
    found = chooser.select_destinations(in_group("anti-affinity", *owners), owners, alternates=True)
    selected = {each.selected.host for each in found}
    for each in found:
        assert {other.host for other in each.alternates} == {"cn0", "cn1", "cn2", "cn3"} - selected


class MemberMeanwhile(HostsInMemory):
    """Another call puts a member on the worst host right before the first claim is assumed."""

    def __init__(self, member: str) -> None:
        super().__init__(host_state(f"cn{number}") for number in range(3))
        self._reads, self._member = 0, member

    def get_host_state(self, node_uuid: str) -> HostState | None:
        self._reads += 1
        if self._reads == 1:
            other = host_state("cn2", instances=[self._member])
            self.states[other.uuid] = replace(other, version=2)
        return super().get_host_state(node_uuid)


@pytest.mark.parametrize(("filters", "expected"), [(GROUP_FILTERS, "cn2"), ((), "cn0")])
def test_concurrent_builds_of_an_affinity_group_end_on_one_host(filters, expected):
    member = uid()
    chooser = scheduler(MemberMeanwhile(member), filters=filters)
    [found] = chooser.select_destinations(in_group("affinity", member), [uid()])
    assert found.selected.host == expected


@pytest.mark.parametrize(("state", "expected"), [("outgoing", "cn1"), ("incoming", "cn2")])
def test_an_affinity_group_is_not_where_a_member_has_left_a_claim(state, expected):
    member = uid()
    claim = replace(pinned_claim(owner=member), state=state)
    moving = InstanceInfo(uuid=member, here=False, claims=(claim,))
    sides = [host_state("cn1", SMALL, instances=[member]), host_state("cn2", instances=[moving])]
    chooser = scheduler(HostsInMemory([*sides, host_state("cn3")]), filters=GROUP_FILTERS)
    [found] = chooser.select_destinations(in_group("affinity", member), [uid()])
    assert found.selected.host == expected
