"""Moves: which call when, and what both sides hear."""

import pytest
from msgspec.structs import replace

from rtagent.conductor.errors import OperationFailed, OperationInterrupted, ServerConflict
from rtagent.errors import AgentUnreachable, TooManyRequests
from rtagent.model.request import Flavor
from rtagent.model.server import Destination, InstanceGroup
from tests.support.cloud import LARGE, SMALL, Cloud, spec
from tests.support.cloud_parts import Faults, Killed
from tests.support.hosts import uid


@pytest.fixture
def server(cloud):
    """A server on h0."""
    built = cloud.conductor().build(spec(), name="web-1")
    cloud.calls.clear()
    cloud.hooks.calls.clear()
    return built


def calls(cloud):
    """Return the calls since the last time: host, method, and what was reported."""
    found = [
        (host, method, *_reported(arguments.get("instance", {}), method))
        for host, method, arguments in cloud.calls
    ]
    cloud.calls.clear()
    return found


def _reported(instance, method):
    return (instance["vm_state"], instance["task_state"]) if method == "update_usage" else ()


def test_a_resize_is_confirmed(cloud, server):
    resized = cloud.conductor().resize(server.uuid, LARGE)
    assert (resized.vm_state, resized.place.host) == ("resized", "h1")
    assert (resized.move.source.host, resized.spec.flavor) == ("h0", LARGE)
    assert calls(cloud) == [
        ("h1", "resize_claim"),
        ("h0", "update_usage", "active", "resize_prep"),
        ("h1", "update_usage", "active", "resize_prep"),
        ("h0", "start_move_out"),
        ("h1", "finish_move"),
        ("h0", "update_usage", "resized", None),
        ("h1", "update_usage", "resized", None),
    ]
    assert cloud.hooks.calls == ["prepare at h1", "copy from h0 to h1"]
    assert cloud.place(server.uuid) == [("h0", "outgoing"), ("h1", "active")]
    assert cloud.guests(server.uuid) == [("h0", "stopped"), ("h1", "running")]
    cloud.check()

    confirmed = cloud.conductor().confirm(server.uuid)
    assert (confirmed.vm_state, confirmed.place.host, confirmed.move) == ("active", "h1", None)
    updates = [(host, "update_usage", "active", None) for host in ("h1", "h0")]
    assert calls(cloud) == [("h0", "drop_move_claim_at_source"), *updates]
    assert cloud.place(server.uuid) == [("h1", "active")]
    assert cloud.hooks.calls[2:] == ["cleanup at h0"]


def test_a_resize_is_reverted(cloud, server):
    cloud.conductor().resize(server.uuid, LARGE)
    calls(cloud)
    back = cloud.conductor().revert(server.uuid)
    assert (back.vm_state, back.place.host, back.spec.flavor) == ("active", "h0", SMALL)
    updates = [(host, "update_usage", "active", None) for host in ("h0", "h1")]
    assert calls(cloud) == [("h1", "drop_move_claim_at_dest"), ("h0", "finish_revert"), *updates]
    assert cloud.hooks.calls[2:] == ["cleanup at h1"]


def test_a_selection_is_repeated_while_the_scheduler_counts_a_claim_that_has_ended(cloud, server):
    waited = []

    def pause(seconds):
        waited.append(seconds)
        cloud.clock.advance(seconds)
        if cloud.scheduler.ended == {"h1": reported} and len(waited) == 2:
            cloud.scheduler.ended = {}

    conductor, reported = cloud.conductor(pause), uid(7)
    for ended, least, most in ((uid(8), 5, 60), (server.place.claim["uuid"], 0, 0)):
        cloud.scheduler.ended = {"h1": ended}
        with pytest.raises(OperationFailed, match="no host is left"):
            conductor.cold_migrate(server.uuid, "h1")
        assert least <= sum(waited) <= most
        waited.clear()
    cloud.scheduler.ended = {"h1": reported}
    assert conductor.cold_migrate(server.uuid, "h1").place.host == "h1"
    assert sum(waited) < 2


def test_a_resize_stays_on_its_host_if_that_is_allowed(cloud, server):
    cloud.options = replace(cloud.options, allow_resize_to_same_host=True)
    assert cloud.conductor().resize(server.uuid, LARGE).place.host == "h0"
    assert sorted(cloud.place(server.uuid)) == [("h0", "active"), ("h0", "outgoing")]
    assert cloud.hooks.calls == ["prepare at h0"]


def test_a_resize_that_no_host_accepts_leaves_the_guest_running(cloud, server):
    with pytest.raises(OperationFailed, match=r"h1: .*; h2: "):
        cloud.conductor().resize(server.uuid, Flavor(vcpus=1, memory_mb=999_999))
    assert cloud.conductor().server(server.uuid).vm_state == "active"
    assert cloud.guests(server.uuid) == [("h0", "running")]


def test_a_lease_lost_in_a_hook_is_noticed_before_the_guest_is_stopped(cloud, server):
    cloud.hooks.actions["prepare at h1"] = cloud.audit
    assert cloud.conductor().resize(server.uuid, LARGE).place.host == "h2"
    passed = cloud.faults.passed
    assert passed.index("hook prepare at h2 before") < passed.index("stop at h0 before")


def test_a_resize_whose_guest_does_not_start_goes_to_the_next_host(cloud, server):
    cloud.enactor.refuses = {"h1": "start"}
    assert cloud.conductor().resize(server.uuid, LARGE).place.host == "h2"
    assert "cleanup at h1" in cloud.hooks.calls


@pytest.mark.parametrize("step", ["prepare", "stop", "copy"])
def test_a_lease_is_renewed_while_a_step_takes_long(cloud, server, step):
    cloud.options = replace(cloud.options, lease_renew_interval=0.01)
    cloud.hooks.actions[step] = cloud.wait_for_renewal
    stop = cloud.enactor.stop

    def take_long(*arguments, **named):
        cloud.wait_for_renewal()
        stop(*arguments, **named)

    if step == "stop":
        cloud.enactor.stop = take_long
    assert cloud.conductor().resize(server.uuid, LARGE).place.host == "h1"


def test_a_live_migration(cloud, server):
    arrived = cloud.conductor().live_migrate(server.uuid)
    assert (arrived.vm_state, arrived.place.host, arrived.move) == ("active", "h1", None)
    assert calls(cloud) == [
        ("h1", "live_migration_claim"),
        ("h0", "update_usage", "active", "migrating"),
        ("h1", "update_usage", "active", "migrating"),
        ("h0", "start_move_out"),
        ("h1", "finish_move"),
        ("h0", "drop_move_claim_at_source"),
        ("h0", "update_usage", "active", None),
        ("h1", "update_usage", "active", None),
    ]
    assert cloud.scheduler.specs[-1].ignore_hosts == ("h0",)


def test_an_evacuated_host_is_cleared_when_it_is_back(cloud, server):
    conductor = cloud.conductor()
    with pytest.raises(ServerConflict, match="the agent of h0 answers"):
        conductor.evacuate(server.uuid)
    cloud.switch_off("h0")
    arrived = conductor.evacuate(server.uuid)
    assert (arrived.vm_state, arrived.place.host) == ("active", "h1")
    [owed] = conductor.unfinished()
    assert owed.kind == "clear-evacuated"
    [error] = cloud.resume()
    assert isinstance(error, OperationInterrupted)

    cloud.switch_on("h0")
    # Until it is cleared it is not selected: clearing it would remove the guest.
    assert conductor.cold_migrate(server.uuid).place.host == "h2"
    conductor.confirm(server.uuid)
    assert cloud.resume() == []
    assert cloud.guests(server.uuid) == [("h2", "running")]
    cloud.check()
    assert conductor.live_migrate(server.uuid).place.host == "h0"


def test_a_lease_lost_in_a_hook_is_noticed_before_an_evacuated_guest_is_defined(cloud, server):
    cloud.switch_off("h0")
    cloud.hooks.actions["prepare at h1"] = cloud.audit
    assert cloud.conductor().evacuate(server.uuid).place.host == "h2"
    assert "define at h1 before" not in cloud.faults.passed
    cloud.switch_on("h0")
    assert cloud.resume() == []


def test_an_evacuation_allocates_once_although_the_answer_of_a_selection_was_lost():
    cloud = Cloud(placement=True)
    server = cloud.conductor().build(spec())
    cloud.switch_off("h0")
    cloud.enactor.refuses = {"h2": "define"}
    lost = AgentUnreachable(where="it", why="-", remedy="-")
    cloud.faults = Faults(lasting={"select after": lost})

    def prefer_h2(seconds):
        cloud.scheduler.order = ["h2"]
        cloud.faults.lasting = {}
        cloud.clock.advance(seconds)

    source, during = cloud.placement.has(server.uuid), []
    cloud.hooks.actions["prepare"] = lambda: during.append(cloud.placement.has(server.uuid))
    with pytest.raises(OperationFailed):
        cloud.conductor(prefer_h2).evacuate(server.uuid)
    assert [len(found) for found in during] == [2]  # h0 and h2, not h1
    assert cloud.placement.has(server.uuid) == source


def test_a_server_is_shelved_and_unshelved(cloud, server):
    conductor = cloud.conductor()
    shelved = conductor.shelve(server.uuid)
    assert (shelved.vm_state, shelved.place) == ("shelved_offloaded", None)
    assert cloud.hooks.calls == ["save at h0", "cleanup at h0"]
    cloud.check()
    back = conductor.unshelve(server.uuid, host="h2")
    assert cloud.scheduler.specs[-1].requested_destination.host == "h2"
    assert (back.vm_state, back.spec.requested_destination) == ("active", None)


@pytest.mark.parametrize("move", ["cold_migrate", "live_migrate", "evacuate"])
@pytest.mark.parametrize("host", [None, "h2"])
def test_a_server_that_was_built_on_a_named_host_can_move(cloud, move, host):
    conductor, zone = cloud.conductor(), (uid(5),)
    named = Destination(host="h0", node="h0.example", aggregates=zone)
    built = conductor.build(spec(requested_destination=named))
    assert cloud.scheduler.specs[-1].requested_destination == named
    if move == "evacuate":
        cloud.switch_off("h0")
    assert getattr(conductor, move)(built.uuid, host).place.host == (host or "h1")
    asked = cloud.scheduler.specs[-1].requested_destination
    assert asked == Destination(host=host, aggregates=zone)
    cloud.switch_on("h0")
    assert cloud.resume() == []


def test_a_move_knows_the_servers_that_joined_the_group_and_not_where_they_were(cloud):
    conductor, other = cloud.conductor(), uid()
    group = InstanceGroup(uuid=uid(), policy="affinity", members=(other,), hosts=("h0",))
    first, second, _ = (conductor.build(spec(instance_group=each)) for each in (group, group, None))
    assert cloud.scheduler.specs[1].instance_group.members == (other, first.uuid)
    assert cloud.scheduler.specs[1].instance_group.hosts == ("h0",)
    moved = conductor.live_migrate(first.uuid)
    asked = cloud.scheduler.specs[-1].instance_group
    assert set(asked.members) == {other, first.uuid, second.uuid}
    assert replace(asked, members=()) == replace(group, members=(), hosts=())
    assert moved.spec.instance_group == group


def test_a_group_whose_members_are_not_named_stays_on_its_hosts(cloud):
    group = InstanceGroup(policy="affinity", hosts=("h0", "h1"))
    built = cloud.conductor().build(spec(instance_group=group))
    cloud.conductor().live_migrate(built.uuid)
    assert cloud.scheduler.specs[-1].instance_group == group


def test_a_server_is_unshelved_to_another_zone_and_stays_there(cloud):
    conductor = cloud.conductor()
    built = conductor.build(spec(availability_zone="east"))
    for zone, expected in (None, "east"), ("west", "west"), (None, "west"):
        conductor.shelve(built.uuid)
        back = conductor.unshelve(built.uuid, availability_zone=zone)
        assert cloud.scheduler.specs[-1].availability_zone == expected
        assert back.spec.availability_zone == expected


def test_an_operation_that_the_state_does_not_allow_is_refused(cloud, server):
    conductor = cloud.conductor()
    with pytest.raises(ServerConflict, match="its vm_state is active, and must be resized"):
        conductor.confirm(server.uuid)
    conductor.stop(server.uuid)
    with pytest.raises(ServerConflict, match="its vm_state is stopped, and must be active"):
        conductor.live_migrate(server.uuid)
    conductor.start(server.uuid)


def test_a_guest_that_runs_is_not_evacuated_although_its_agent_does_not_answer(cloud, server):
    cloud.down.add("h0")
    with pytest.raises(ServerConflict, match="the guest runs on h0, although no agent answers"):
        cloud.conductor().evacuate(server.uuid)
    assert cloud.guests(server.uuid) == [("h0", "running")]


def test_an_agent_that_answers_with_an_error_is_not_evacuated(cloud, server):
    cloud.switch_off("h0")
    cloud.down.clear()
    cloud.faults = Faults(errors={0: TooManyRequests("busy", limit=1)})
    with pytest.raises(ServerConflict, match="the agent of h0 answers"):
        cloud.conductor().evacuate(server.uuid)
    cloud.hosts[0].world.start_domain(server.uuid, vcpus=1, memory_mb=1024)


def test_servers_of_a_host_that_an_operator_has_forced_down_are_evacuated(cloud, server):
    cloud.hosts[0].world.shut_off(server.uuid)  # the host is fenced, its agent answers
    cloud.scheduler.forced_down.add("h0")
    assert cloud.conductor().evacuate(server.uuid).place.host == "h1"
    assert cloud.resume() == []


def die(cloud, server):
    """Kill the conductor of a live migration. Return the claim at the destination."""
    cloud.faults = Faults(lasting={"live_migrate at h1 before": Killed()})
    with pytest.raises(Killed):
        cloud.conductor().live_migrate(server.uuid)
    cloud.faults = Faults()
    [claim] = cloud.claims("h1").values()
    return claim


def outlive_the_lease(cloud, server):
    """Kill the conductor of a live migration; the guest arrives after its claim has ended."""
    claim = die(cloud, server)
    cloud.audit()
    assert cloud.place(server.uuid) == [("h0", "outgoing")]
    cloud.hosts[1].world.start_domain(server.uuid, vcpus=1, memory_mb=1024)
    cloud.hosts[0].world.domains.pop(server.uuid)
    del cloud.enactor.claims["h0", server.uuid]
    cloud.enactor.claims["h1", server.uuid] = claim.uuid


def test_a_live_migration_that_outlived_its_lease_is_finished_elsewhere(cloud, server):
    outlive_the_lease(cloud, server)
    assert cloud.resume() == []
    migrations = [each for each in cloud.faults.passed if each.startswith("live_migrate")]
    assert [each for each in migrations if each.endswith("after")] == [
        f"live_migrate at {host} after" for host in ("h1", "h0", "h2")
    ]
    assert cloud.guests(server.uuid) == [("h2", "running")]


def test_a_guest_that_stopped_where_its_lease_was_lost_is_brought_back(cloud, server):
    outlive_the_lease(cloud, server)
    cloud.hosts[1].world.shut_off(server.uuid)
    [error] = cloud.resume()
    assert isinstance(error, OperationFailed)
    assert cloud.guests(server.uuid) == [("h0", "stopped")]
    assert cloud.place(server.uuid) == [("h0", "active")]
    assert cloud.conductor().unfinished() == []
    cloud.hosts[0].world.start_domain(server.uuid, vcpus=1, memory_mb=1024)


def test_a_resumed_migration_renews_its_lease(cloud, server):
    claim, ends = die(cloud, server), []
    cloud.clock.advance(200)
    migrate = cloud.enactor.live_migrate

    def look(*arguments, **named):
        ends.extend(each.expires_at for each in cloud.claims("h1").values())
        migrate(*arguments, **named)

    cloud.enactor.live_migrate = look
    assert cloud.resume() == []
    assert (ends[0] - claim.expires_at).total_seconds() >= 200
