"""Operations without faults, refusals of hosts, leases, and conductors that share a database."""

import pytest
from msgspec.structs import replace

from rtagent import errors
from rtagent.conductor.errors import (
    InvalidReply,
    OperationFailed,
    OperationInterrupted,
    OperationNotFound,
    OperationTaken,
    ServerConflict,
    ServerNotFound,
)
from rtagent.conductor.opening import selections_of
from rtagent.model.request import Flavor
from rtagent.model.server import InstanceGroup
from tests.servers.daemon import wait_until
from tests.support.cloud import Cloud, spec
from tests.support.cloud_parts import Faults, Killed
from tests.support.hosts import uid

#: No host has as much memory.
HUGE = Flavor(vcpus=1, memory_mb=999_999)


def methods(cloud):
    """Return the calls to agents that were made: host and method."""
    return [(host, method) for host, method, _ in cloud.calls]


def test_a_server_is_built_and_deleted(cloud):
    steps = []
    conductor = cloud.conductor(listener=lambda operation: steps.append(operation.step))
    server = conductor.build(spec(), name="web-1")
    assert steps == ["select", "claim", "prepare", "activate", "define", "start", "report"]
    assert server == conductor.server(server.uuid)
    assert (server.name, server.vm_state, server.place.host) == ("web-1", "active", "h0")
    assert cloud.guests(server.uuid) == [("h0", "running")]
    names = ("instance_claim", "activate_claim", "update_usage", "build_succeeded")
    assert methods(cloud) == [("h0", name) for name in names]
    assert cloud.hooks.calls == ["prepare at h0"]
    cloud.check()
    conductor.delete(server.uuid)
    assert conductor.servers() == []
    assert cloud.hooks.calls[1:] == ["cleanup at h0"]
    cloud.check()
    with pytest.raises(ServerNotFound):
        conductor.delete(server.uuid)


def test_the_record_of_a_call_is_its_check(cloud):
    cloud.conductor().build(spec())
    [operation] = cloud.records.operations()
    # After the selection, before the hook, before both orders, and before the second report.
    assert operation.beat == 5


def test_a_selection_whose_answer_was_lost_is_replaced_and_not_deleted():
    cloud = Cloud(placement=True)
    cloud.conductor().build(spec())
    answered = cloud.faults.passed.index("select after")
    cloud.faults = Faults(
        errors={answered: errors.AgentUnreachable(where="-", why="-", remedy="-")}
    )
    server = cloud.conductor().build(spec())
    asked = [point for point in cloud.faults.passed if point.startswith("allocations-")]
    assert asked == ["allocations-read before", "allocations-read after"]
    assert [*cloud.placement.has(server.uuid)] == [server.place.node_uuid]


def test_a_refused_build_takes_the_next_alternate_then_asks_again(cloud):
    cloud.enactor.refuses = {"h0": "define", "h1": "start"}
    server = cloud.conductor().build(spec())
    assert server.place.host == "h2"
    assert len(cloud.scheduler.specs) == 1
    assert ("h0", "build_failed") in methods(cloud)
    cloud.check()

    cloud.scheduler.alternates = False
    server = cloud.conductor().build(spec())
    assert server.place.host == "h2"
    assert [each.ignore_hosts for each in cloud.scheduler.specs[1:]] == [(), ("h0",), ("h0", "h1")]
    assert cloud.scheduler.assumed == set()


@pytest.mark.parametrize(
    ("policy", "asked"), [("affinity", 2), ("anti-affinity", 2), ("soft-anti-affinity", 1)]
)
def test_scheduler_is_asked_again_where_others_of_a_server_group_may_be_since(cloud, policy, asked):
    cloud.enactor.refuses = {"h0": "define"}
    group = InstanceGroup(policy=policy)
    assert cloud.conductor().build(spec(instance_group=group)).place.host == "h1"
    assert [each.ignore_hosts for each in cloud.scheduler.specs] == [(), ("h0",)][:asked]
    cloud.check()


def test_a_build_that_no_host_accepts_fails_with_the_reasons_of_each(cloud):
    with pytest.raises(OperationFailed, match=r"h0: .*; h1: .*; h2: ") as failed:
        cloud.conductor().build(spec(HUGE))
    assert failed.value.kwargs["error"]["error"] == errors.ComputeResourcesUnavailable.__name__
    [server] = cloud.conductor().servers()
    assert (server.vm_state, server.place, server.task_state) == ("error", None, None)
    cloud.check()
    assert cloud.scheduler.assumed == set()
    cloud.conductor().delete(server.uuid)


def test_a_host_that_does_not_answer_is_given_up_and_its_claim_is_released_later(cloud):
    def lose():
        cloud.down.add("h0")
        raise RuntimeError("the disk is full")

    cloud.hooks.actions["prepare at h0"] = lose
    server = cloud.conductor().build(spec())
    assert server.place.host == "h1"
    assert cloud.place(server.uuid) == [("h0", "building"), ("h1", "active")]
    [owed] = cloud.conductor().unfinished()
    assert (owed.kind, owed.server_uuid, owed.owner) == ("owed-call", server.uuid, None)
    [error] = cloud.resume()
    assert isinstance(error, OperationInterrupted)
    cloud.down.clear()
    assert cloud.resume() == []


def test_a_guest_that_may_run_is_not_started_elsewhere(cloud):
    def lose():
        cloud.hosts[0].world.lost = True

    cloud.hooks.actions["prepare at h0"] = lose
    with pytest.raises(OperationInterrupted, match="rtagent server resume") as stopped:
        cloud.conductor().build(spec())
    assert stopped.value.retriable
    assert stopped.value.kwargs["step"] == "define"
    assert stopped.value.kwargs["error"]["error"] == errors.HypervisorUnavailable.__name__
    cloud.hosts[0].world.lost = False
    assert cloud.resume() == []
    cloud.check()
    [server] = cloud.conductor().servers()
    assert cloud.guests(server.uuid) == [("h1", "running")]


def test_a_lost_lease_prevents_the_start(cloud):
    cloud.hooks.actions["prepare at h0"] = cloud.audit
    assert cloud.conductor().build(spec()).place.host == "h1"
    assert "start at h0 before" not in cloud.faults.passed


def test_a_lease_is_renewed_before_a_hook_only_if_the_claim_took_long(cloud):
    cloud.conductor().build(spec())
    assert not cloud.renewed.is_set()
    claimed = cloud.faults.passed.index("instance_claim at h0 after")
    cloud.faults = Faults(actions={claimed: lambda: cloud.clock.advance(60)})
    cloud.conductor().build(spec())
    assert cloud.renewed.is_set()


def test_one_operation_runs_on_a_server(cloud):
    server = cloud.conductor().build(spec())
    cloud.faults = Faults(kill=3)
    with pytest.raises(Killed):
        cloud.conductor().delete(server.uuid)
    cloud.faults = Faults()
    with pytest.raises(ServerConflict, match=r"the delete .* runs on it.*server resume"):
        cloud.conductor().delete(server.uuid)
    with pytest.raises(ServerConflict, match="a server of this uuid exists"):
        cloud.conductor().build(spec(), server_uuid=server.uuid)
    assert cloud.resume() == []


def test_a_living_conductor_keeps_its_operation(cloud):
    cloud.faults = Faults(kill=8)
    first = cloud.conductor()
    with pytest.raises(Killed):
        first.build(spec())
    cloud.faults = Faults()
    [operation] = first.unfinished()

    def sign_of_life(seconds):
        assert seconds >= cloud.options.takeover_time
        assert cloud.records.beat(operation)

    second = cloud.conductor(pause=sign_of_life)
    assert second.resume() == []
    assert second.resume(operation.uuid) == []
    [taken] = cloud.conductor().resume()
    assert not cloud.records.beat(operation)
    with pytest.raises(OperationTaken):
        first.work(operation)
    cloud.conductor().work(taken)
    cloud.check()
    with pytest.raises(OperationNotFound):
        cloud.conductor().resume(operation.uuid)


def test_an_interrupt_leaves_an_operation_that_is_resumed_at_once(cloud):
    def interrupt():
        raise KeyboardInterrupt

    cloud.hooks.actions["prepare"] = interrupt
    with pytest.raises(KeyboardInterrupt):
        cloud.conductor().build(spec())
    cloud.hooks.actions.clear()
    seconds = cloud.clock.monotonic()
    assert cloud.resume() == []
    assert cloud.clock.monotonic() == seconds


def test_a_conductor_that_stood_still_repeats_no_call(cloud):
    """It continues in the middle of a wait, after another one has finished the operation."""
    finished = []

    def stand_still(seconds):
        cloud.clock.advance(seconds)
        if not finished:
            finished.append(cloud.resume())

    cloud.faults = Faults(errors={8: errors.TrackerBusy("busy")})
    with pytest.raises(OperationTaken):
        cloud.conductor(pause=stand_still).build(spec())
    assert finished == [[]]
    cloud.check()
    repeated = [point for point in cloud.faults.passed if point == cloud.faults.passed[8]]
    assert len(repeated) == 2, "once by each conductor"


def test_an_operation_shows_signs_of_life_as_long_as_a_hook_runs(cloud):
    cloud.options = replace(cloud.options, takeover_time=0.05, operation_timeout=0.05)

    def wait_for_signs():
        [operation] = cloud.records.operations(running=True)
        wait_until(lambda: cloud.records.operation(operation.uuid).beat >= operation.beat + 20)

    cloud.hooks.actions["prepare"] = wait_for_signs
    cloud.conductor().build(spec())


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"server_uuid": "no-uuid"}, "$.uuid"),
        ({"server_uuid": "A" * 8 + "-0000-0000-0000-" + "0" * 12}, "$.uuid"),
        ({"name": "web\n"}, "$.name"),
        ({"name": "w" * 300}, "$.name"),
        ({"name": "\ud800"}, "$.name"),
    ],
)
def test_a_uuid_or_a_name_that_is_invalid_is_refused(cloud, fields, path):
    with pytest.raises(errors.InvalidRequest) as refused:
        cloud.conductor().build(spec(), **fields)
    assert path in [each["path"] for each in refused.value.kwargs["errors"]]
    assert not cloud.conductor().servers()
    str(refused.value).encode()


SELECTED = {"host": "h1", "nodename": "n1", "provider_uuid": uid(1), "operation_id": uid(2)}
GOOD = {"instance_uuid": uid(3), "selected": SELECTED}


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (None, "Expected `object`, got `null`"),
        ({}, "missing required field `selections`"),
        ({"selections": [{**GOOD, "selected": {}}]}, r"at `\$.selections\[0\].selected`"),
        ({"selections": []}, "it selects for no instance"),
        ({"selections": [GOOD, GOOD]}, f"it selects for {uid(3)}, {uid(3)}"),
    ],
)
def test_a_reply_of_another_form_is_an_error_of_its_own(reply, why):
    [found] = selections_of({"selections": [GOOD]}, [uid(3)])
    assert (found.selected.host, found.alternates) == ("h1", ())
    with pytest.raises(InvalidReply, match=f"the scheduler answered select_destinations.*{why}"):
        selections_of(reply, [uid(3)])


def test_a_claim_that_cannot_be_read_undoes_the_build():
    class Newer(Cloud):
        def call(self, host, node_uuid, method, **arguments):
            reply = super().call(host, node_uuid, method, **arguments)
            return {"uuid": reply["uuid"]} if method == "activate_claim" else reply

    cloud = Newer()
    with pytest.raises(OperationFailed, match="the agent of h0 answered"):
        cloud.conductor().build(spec())
    cloud.check()
