"""HostManager: the scheduler's view of the hosts."""

import pytest
from msgspec.structs import replace

from rtagent.errors import NodeNotFound
from rtagent.model.claim import BUILD, INCOMING, RESIZE
from rtagent.model.host_report import MAX_INSTANCES, HostUsage, InstanceInfo, ServiceState
from rtagent.ports import NullReporter
from rtagent.scheduler.host_manager import FORGOTTEN_AFTER, HostManager, Times
from rtagent.scheduler.report_documents import SyncInstanceInfo, UpdateInstanceInfo, instances_text
from rtagent.scheduler.tracked_host import ASK_AGAIN, GAP, INSTANCES, STATE, Wanted
from tests.support.host_states import aggregate
from tests.support.hosts import (
    DEDICATED,
    PINNED,
    PINNING,
    ManualClock,
    domain_usage,
    host,
    request,
    uid,
)
from tests.support.reporting_agents import ReportingAgent, assumable, deliver

TIMES = Times(down=60.0, assume=30.0)


class View:
    """A manager with its clock and what it has asked for."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.asked: list[Wanted] = []
        self.manager = HostManager(self.clock, NullReporter(), self.asked.append, TIMES)

    def host(self, agent: ReportingAgent):
        found = [each for each in self.manager.get_all_host_states() if each.uuid == agent.uuid]
        assert len(found) == 1
        return found[0]

    def later(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.manager.tick()

    def assume(self, agent: ReportingAgent, *asked):
        return self.manager.assume(agent.uuid, assumable(agent.state, *asked), here=True)

    def is_down(self, agent: ReportingAgent) -> bool:
        return self.host(agent).seen < self.clock.monotonic() - TIMES.down


@pytest.fixture
def view() -> View:
    return View()


@pytest.fixture
def manager(view) -> HostManager:
    return view.manager


def reported(view: View, name: str = "cn1", state=None) -> ReportingAgent:
    agent = ReportingAgent(name, state)
    deliver(view.manager, *agent.messages())
    return agent


@pytest.fixture
def agent(view) -> ReportingAgent:
    """The agent of cn1, which has reported."""
    return reported(view)


# -- reports --------------------------------------------------------------------------------------


def test_higher_epoch_with_a_lower_revision_is_newer(view, manager):
    agent = ReportingAgent()
    empty = agent.state
    for _ in range(3):
        agent.claim(request(1, 1024))
    deliver(manager, *agent.messages())
    before = agent.report()
    agent.state = replace(empty, epoch=1)
    agent.restart()  # of a database from before the claims
    deliver(manager, *agent.messages(), before)
    assert view.host(agent).vcpus_used == 0 and view.host(agent).base.epoch == 2


def test_heartbeat_keeps_the_version_and_refreshes_the_rest(view, manager, agent):
    before = view.host(agent)
    view.clock.advance(10)
    service = ServiceState(disabled=True, disabled_reason="maintenance")
    deliver(manager, agent.report(service=service, up=False, why_not="libvirt is away"))
    after = view.host(agent)
    assert after.version == before.version and after.replica is before.replica
    assert after.seen == before.seen + 10 and after.service == service
    assert (after.up, after.why_not) == (False, "libvirt is away")


def test_a_heartbeat_from_before_a_message_about_instances_is_older(view, manager, agent):
    before = agent.report(service=ServiceState(disabled=True))
    deliver(manager, agent.digest(), agent.report(), before)
    assert not view.host(agent).service.disabled
    assert manager.counts["old"] == 1


def test_the_older_of_two_heartbeats_that_overtake_each_other_is_ignored(view, manager, agent):
    first = agent.report(number=1, service=ServiceState(disabled=True))
    second = agent.report(number=2)
    for message in (second, first, second):
        deliver(manager, message)
        assert not view.host(agent).service.disabled


def test_unknown_description_is_asked_for_and_the_host_appears_with_it(view, manager):
    agent = ReportingAgent()
    agent.host_report()  # lost, with the description
    deliver(manager, agent.report())
    assert manager.get_all_host_states() == ()
    assert view.asked == [Wanted(host="cn1", description=True)]
    deliver(manager, agent.report())
    assert len(view.asked) == 1  # it was asked just now
    view.later(ASK_AGAIN)
    assert len(view.asked) == 2
    deliver(manager, *agent.answer())
    assert view.host(agent).vcpus_total == 8


def test_equal_descriptions_are_shared(view, manager):
    for name in ("cn1", "cn2"):
        reported(view, name)
    one, two = manager.get_all_host_states()
    assert one.replica.topology is two.replica.topology


def test_description_with_another_digest_is_set_aside(view, manager, agent):
    liar = ReportingAgent("cn2", host(reserved_cpus=4))
    deliver(manager, liar.report(digest="of something else"))
    assert [each.uuid for each in manager.get_all_host_states()] == [agent.uuid]
    assert manager.counts["set_aside"] == 1
    manager.begin(settle=0)
    assert manager.complete  # a sender that cannot be understood delays nobody


def test_report_that_cannot_be_used_changes_nothing(view, manager, agent):
    before = view.host(agent)
    deliver(manager, agent.report(revision=5, usage=replace(HostUsage(), devices=(["x"],))))
    assert view.host(agent) == before and manager.counts["set_aside"] == 1
    deliver(manager, agent.report(revision=6))
    assert view.host(agent).base.revision == 6


# -- positions that no host has had ---------------------------------------------------------------

LAST = 2**31 - 1


@pytest.mark.parametrize(
    "wrong",
    [{"epoch": LAST}, {"revision": LAST}, {"instances_revision": LAST}, {"number": LAST}],
    ids=str,
)
def test_a_position_that_is_too_high_does_not_freeze_a_host(view, manager, wrong, agent):
    agent.claim(request(3, 64, owner=uid(1)))
    deliver(manager, *agent.messages(), agent.report(**wrong))
    view.clock.advance(TIMES.down)
    view.asked.clear()
    for _ in range(2):  # they may be old messages
        view.clock.advance(1)
        deliver(manager, agent.report())
    assert view.asked == [Wanted(host="cn1", description=True, instances=view.asked[0].instances)]
    assert view.is_down(agent)
    for _ in range(2):
        deliver(manager, *agent.answer())
        view.later(ASK_AGAIN)
    seen = view.host(agent)
    assert not view.is_down(agent)
    assert (seen.vcpus_used, seen.base.epoch, list(seen.instances)) == (3, 1, [uid(1)])
    view.asked.clear()
    view.later(ASK_AGAIN)
    assert view.asked == []


def change(manager, agent, epoch, number, infos, kind=UpdateInstanceInfo, **fields):
    fields = {"host": "cn1", "node_uuid": agent.uuid, "epoch": epoch, **fields}
    message = kind(revision=number, instances=instances_text(infos), **fields)
    manager.change_instances(message, infos)


@pytest.mark.parametrize("whole", [{"kind": SyncInstanceInfo, "digest": "d"}, {}], ids=str)
@pytest.mark.parametrize(("epoch", "number"), [(LAST, 1), (1, LAST)])
def test_a_number_too_high_does_not_freeze_the_instances(view, manager, epoch, number, whole):
    agent, info = reported(view), InstanceInfo(uuid=uid(99))
    change(manager, agent, epoch, number, (info,), **whole)
    agent.claim(request(1, 64, owner=uid(1)))
    deliver(manager, *agent.messages())
    assert uid(99) in view.host(agent).instances
    view.later(GAP)
    assert view.asked == [Wanted(host="cn1", instances=True)]
    deliver(manager, *agent.answer())
    assert set(view.host(agent).instances) == {uid(1)}
    view.later(ASK_AGAIN)
    assert len(view.asked) == 1


# -- messages that are set aside ------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "answers"), [(STATE, 1), (INSTANCES, 0)])
def test_a_host_of_which_a_message_is_set_aside_is_not_selected(view, manager, kind, answers):
    agent, new = reported(view), ReportingAgent("new")
    manager.set_aside("cn1", agent.uuid, kind, "has 9 cells")
    manager.set_aside("new", new.uuid, kind, "x" * 2000)
    manager.set_aggregates([aggregate("a", "cn1")])
    seen = view.host(agent)
    assert (seen.up, seen.why_not) == (False, "has 9 cells")
    assert manager.get_set_aside() == {"cn1": "has 9 cells", "new": "x" * 1000}
    manager.begin(settle=0)
    assert manager.complete, "a host that cannot be understood delays nobody"
    deliver(manager, agent.answer()[answers])
    assert view.host(agent).up and set(manager.get_set_aside()) == {"new"}


def test_the_instances_of_one_host_are_bounded_however_they_come(view, manager, agent):
    many = [InstanceInfo(uuid=uid(number)) for number in range(MAX_INSTANCES + 1)]
    half = len(many) // 2
    change(manager, agent, 1, 2, many[:half])
    change(manager, agent, 1, 3, many[half:])
    assert len(view.host(agent).instances) == half and manager.counts["set_aside"] == 1
    usage = replace(domain_usage(uid(1)), name="x" * 2**20)
    for number in range(4, 14):
        info = InstanceInfo(uuid=uid(number), domain_usage=usage)
        change(manager, agent, 1, number, (info,))
    assert manager.counts["set_aside"] > 1


# -- nodes ----------------------------------------------------------------------------------------


def test_aggregates_of_later_hosts_apply_until_the_host_has_another_name(view, manager, agent):
    manager.set_aggregates([aggregate("b", "cn1"), aggregate("a", "cn1", "cn2", k="1")])
    seen = view.host(agent)
    assert {each.name for each in seen.aggregates} == {"a", "b"}
    assert [each.uuid for each in seen.aggregates] == sorted(e.uuid for e in seen.aggregates)
    manager.set_aggregates([aggregate("a", "cn1", k="2")])
    assert view.host(agent).metadata("k") == {"2"}
    assert view.host(agent).version == seen.version
    node = replace(agent.state.node, host="renamed", hypervisor_hostname="r")
    agent.state = replace(agent.state, node=node)
    agent.restart()
    deliver(manager, *agent.messages())
    assert (view.host(agent).host, view.host(agent).aggregates) == ("renamed", ())


# -- hosts that are down --------------------------------------------------------------------------


def test_messages_that_are_not_new_are_no_sign_of_life(view, manager, agent):
    old = agent.report()
    agent.claim(request(1, 64))
    messages = agent.messages()
    deliver(manager, *messages)
    view.clock.advance(61)
    deliver(manager, old, messages[0])
    assert view.is_down(agent)
    deliver(manager, agent.digest())
    assert not view.is_down(agent)


def test_hosts_that_were_silent_for_long_are_dropped(view, manager):
    agent, other = reported(view), reported(view, "cn2")
    view.assume(agent, request(1, 64))
    view.clock.advance(FORGOTTEN_AFTER * TIMES.down)
    deliver(manager, other.report())
    manager.tick()
    assert len(manager.get_all_host_states()) == 2
    view.later(1)
    assert [each.uuid for each in manager.get_all_host_states()] == [other.uuid]
    deliver(manager, *agent.answer())
    assert view.host(agent).vcpus_used == 0


def test_node_of_the_database_stays_until_it_is_removed(view, manager):
    agent, other = reported(view), reported(view, "cn2")
    manager.expect([agent.uuid])
    view.clock.advance(FORGOTTEN_AFTER * TIMES.down + 1)
    deliver(manager, other.report())
    manager.tick()
    assert view.host(agent).host == "cn1"
    view.assume(agent, request(1, 64))
    manager.expect([])
    assert [each.uuid for each in manager.get_all_host_states()] == [other.uuid]
    view.later(TIMES.assume)
    assert manager.get_host_state(agent.uuid) is None


# -- completeness ---------------------------------------------------------------------------------


def test_view_without_a_database_is_complete_once_agents_had_time_to_answer(view, manager):
    assert not manager.complete
    manager.begin(settle=7)
    assert view.asked == [Wanted(host=None, description=True, instances=True)]
    reported(view)
    view.clock.advance(6)
    assert not manager.complete
    view.clock.advance(1)
    assert manager.complete
    late = ReportingAgent("cn2", host(reserved_cpus=1))
    deliver(manager, late.report(description=None))
    assert not manager.complete
    deliver(manager, *late.answer())
    assert manager.complete


@pytest.mark.parametrize("silent", [False, True])
def test_view_with_a_database_is_complete_when_nodes_are_known_or_had_time(view, manager, silent):
    one, two = ReportingAgent("cn1"), ReportingAgent("cn2")
    manager.expect([one.uuid, two.uuid])
    manager.begin(settle=5)
    deliver(manager, *one.messages())
    assert not manager.complete
    if silent:
        view.clock.advance(5)
    else:
        deliver(manager, *two.messages())
    assert manager.complete


# -- instances ------------------------------------------------------------------------------------


def test_digest_that_differs_asks_for_the_list(view, manager, agent):
    agent.claim(request(1, 64, owner=uid(1)))
    agent.messages()  # all lost
    agent.number -= 1  # as if nothing had been sent
    deliver(manager, agent.digest())
    view.later(GAP)
    assert view.asked == [Wanted(host="cn1", instances=True)]


# -- assumed claims -------------------------------------------------------------------------------


def test_assumed_claim_is_counted_in_everything(view, manager):
    agent = reported(view, state=host(numa=PINNING))
    guest = {"owner": uid(1), "instance": {"vm_state": "building"}}
    asked = request(2, 1024, 10, extra_specs=PINNED, **guest)
    before = view.host(agent)
    after = view.assume(agent, asked)
    assert view.host(agent) is after and after.version != before.version
    assert (after.vcpus_used, after.free_ram_mb) == (2, before.free_ram_mb - 1024)
    assert after.free_disk_mb == before.free_disk_mb - 10 * 1024
    assert (after.num_instances, after.num_io_ops) == (1, 1)
    assert after.instances_here == {uid(1)} and after.instances[uid(1)].here
    assert after.capacity.free_pcpus == len(DEDICATED) - 2
    assert len(after.replica.usage.numa.pinned) == 2
    assert after.pci_stats == []


def test_assumed_claim_reduces_what_the_file_system_has_left(view, manager):
    agent = reported(view, state=replace(host(), disk_available_least=20))
    assert view.assume(agent, request(1, 64, 5)).free_disk_mb == 15 * 1024


def test_report_that_names_the_claim_confirms_it(view, manager, agent):
    asked, operation = request(1, 1024, owner=uid(1)), uid()
    view.assume(agent, asked, operation)
    deliver(manager, agent.report())  # it crossed the selection
    assert view.host(agent).vcpus_used == 1
    agent.claim(asked, operation)
    messages = agent.messages()
    for message in messages:
        deliver(manager, message)
        assert view.host(agent).vcpus_used == 1
        assert len(view.host(agent).instances[uid(1)].claims) == 1
    manager.forget_claim(operation)
    manager.assumed_until([operation], view.clock.monotonic())
    assert view.host(agent).vcpus_used == 1 and manager.counts["confirmed"] == 1


def test_claims_of_an_owner_are_forgotten_unless_its_agent_has_granted_them(view, manager, agent):
    claim = assumable(agent.state, request(2, 64, 1))
    manager.assume(agent.uuid, claim, here=True)
    manager.forget_owners({uid()}, BUILD)
    manager.forget_owners({claim.owner_id}, RESIZE)  # the report of the build is on its way
    assert view.host(agent).vcpus_used == 2
    manager.forget_owners({claim.owner_id}, BUILD)
    assert view.host(agent).vcpus_used == 0


def test_claim_is_forgotten_when_its_time_after_the_answer_has_passed(view, manager, agent):
    claim = assumable(agent.state, request(2, 64, 1))
    manager.assume(agent.uuid, claim, here=True)
    view.assume(agent, request(1, 64, 1))  # of a call that never ends
    view.clock.advance(20)
    manager.assumed_until([claim.uuid, uid()], view.clock.monotonic() + 30)
    view.clock.advance(TIMES.assume - 20)
    assert view.host(agent).vcpus_used == 2
    view.clock.advance(50 - TIMES.assume)
    assert manager.get_host_state(agent.uuid).vcpus_used == 0
    assert manager.counts["expired"] == 2


def test_claim_that_was_granted_and_released_between_two_reports_is_forgotten(view, manager, agent):
    asked, operation = request(1, 64, owner=uid(1)), uid()
    view.assume(agent, asked, operation)
    agent.claim(asked, operation)
    granted = agent.messages()[:-1]  # its report is lost
    agent.release(operation)
    *gone, _ = agent.messages()  # this one, too
    deliver(manager, agent.report())
    assert view.host(agent).vcpus_used == 1  # nothing shows yet that it was granted
    deliver(manager, *granted, *gone)
    assert view.host(agent).vcpus_used == 0


@pytest.mark.parametrize("overtaken", [False, True])
def test_claim_that_no_message_names_ends_by_the_report(view, manager, overtaken, agent):
    asked, operation = request(1, 64, owner=uid(1)), uid()
    view.assume(agent, asked, operation)
    agent.claim(asked, operation)
    agent.release(operation)
    messages = agent.messages()
    if overtaken:
        agent.claim(request(1, 64))
        messages = [*agent.messages(), *messages]
    deliver(manager, *messages)
    assert view.host(agent).vcpus_used == int(overtaken)
    assert uid(1) not in view.host(agent).instances
    assert manager.counts["confirmed"] == 1
    assert not manager.forget_claim(operation)


def test_claim_whose_units_another_owner_got_is_counted_without_them(view, manager):
    agent = reported(view, state=host(numa=PINNING))
    asked = request(4, 512, owner=uid(1), extra_specs=PINNED)
    claim = assumable(agent.state, asked)
    manager.assume(agent.uuid, claim, here=True)
    twin = replace(claim, uuid=uid(), owner_id=uid(2))
    after = manager.assume(agent.uuid, twin, here=True)
    assert after.capacity.free_pcpus == -2 and after.free_ram_mb == 16384 - 1024
    agent.claim(request(4, 512, owner=uid(3), extra_specs=PINNED))  # of another scheduler
    deliver(manager, *agent.messages())
    assert view.host(agent).capacity.free_pcpus == -6
    for each in (claim, twin):
        manager.forget_claim(each.uuid)
    assert view.host(agent).capacity.free_pcpus == 2


def test_host_that_is_gone_cannot_get_a_claim(view, manager):
    with pytest.raises(NodeNotFound):
        manager.assume(uid(), assumable(host(), request(1, 64)), here=True)


def test_list_that_is_newer_than_the_report_takes_nothing_out_of_the_total(view, manager, agent):
    agent.claim(request(4, 64, owner=uid(1)))
    instances, _ = agent.messages()
    deliver(manager, instances)
    seen = view.host(agent)
    assert seen.instances_here == {uid(1)} and seen.vcpus_used == 0
    assert manager.replica_for(seen, uid(1)).usage == seen.replica.usage
    assert manager.replica_for(seen, uid(2)) is seen.replica


def test_resize_on_one_host_is_counted_as_the_agent_counts_it(view, manager):
    agent = ReportingAgent(state=host(same_host_resize_reuse=True))
    claim = agent.claim(request(4, 64, owner=uid(1)))
    assert claim is not None
    deliver(manager, *agent.messages())
    fields = {"kind": RESIZE, "state": INCOMING, "vcpus": 6, "memory_mb": 32, "revision": 2}
    after = manager.assume(agent.uuid, replace(claim, uuid=uid(), **fields), here=False)
    assert (after.vcpus_used, after.free_ram_mb, after.num_instances) == (6, 16384 - 64, 1)
    assert len(after.instances[uid(1)].claims) == 2 and after.instances_here == {uid(1)}


# -- hosts that an operator has forced down -------------------------------------------------------


@pytest.mark.parametrize("forced", [True, False])
def test_agent_with_another_record_of_forced_down_is_corrected(view, manager, forced, agent):
    deliver(manager, agent.report(service=ServiceState(forced_down=not forced)))
    assert view.asked == [], "no record contradicts it"
    manager.set_forced_down({"cn1"} if forced else (), () if forced else {"cn1"})
    assert view.asked == [], "its host may be away: only a report is answered"
    deliver(manager, agent.report(service=ServiceState(forced_down=not forced)))
    assert view.asked == [Wanted(host="cn1", forced_down=forced)]
    deliver(manager, agent.report(service=ServiceState(forced_down=forced)))
    assert len(view.asked) == 1


def test_agent_that_shares_the_database_reads_the_record_itself(view, manager, agent):
    manager.expect([agent.uuid])
    manager.set_forced_down({"cn1"})
    deliver(manager, agent.report())
    assert view.asked == []
