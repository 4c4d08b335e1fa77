"""The methods of the node and its service; audits that callers share."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from rtagent import errors
from rtagent.rpc.replies import clock_skew, clock_text
from rtagent.rpc.served_agent import SharedCall
from tests.support.hosts import NODE, uid
from tests.support.rpc import VERSION, Agent, attach, build, migration
from tests.support.stores import MemoryDatabase


def test_audit_on_request(agent: Agent):
    agent.hypervisor.start_domain(uid(), vcpus=1, memory_mb=512)
    summary = agent.invoke("update_available_resource")
    assert (summary["cause"], summary["orphans"], summary["complete"]) == ("request", 1, True)
    assert summary["sentence"] == str(agent.auditor.last)
    agent.hypervisor.lost = True
    with pytest.raises(errors.HypervisorUnavailable):
        agent.invoke("update_available_resource")


def test_a_caller_waits_for_an_audit_within_bounds_and_the_audit_goes_on(agent: Agent):
    go, ended = threading.Event(), threading.Event()
    agent.serve(audit_timeout=0.01)

    def hang(step: str) -> None:
        assert go.wait(60)
        if step == "finish":
            ended.set()

    agent.hypervisor.between = hang
    with pytest.raises(errors.HypervisorUnavailable, match=r"within 0.01 s: it goes on"):
        agent.invoke("update_available_resource")
    go.set()
    assert ended.wait(60)


def test_placement_sync_on_request(agent: Agent):
    revision = agent.tracker.snapshot().revision
    assert agent.invoke("sync_placement") == {"revision": revision}
    agent.placement_error = errors.PlacementUnavailable("no answer")
    with pytest.raises(errors.PlacementUnavailable, match="no answer"):
        agent.invoke("sync_placement")


def test_builds_are_counted(agent: Agent):
    def failed() -> int:
        return agent.invoke("get_node")["node"]["stats"]["failed_builds"]

    once = uid()
    agent.invoke("build_failed", operation_id=once)
    agent.invoke("build_failed", operation_id=once)
    agent.invoke("build_failed", operation_id=uid())
    assert failed() == 2
    agent.invoke("build_succeeded", operation_id=uid())
    assert failed() == 0


def test_a_late_repetition_of_disable_does_not_undo_enable(agent: Agent):
    first = {"disabled": True, "disabled_reason": "new disks", "operation_id": uid()}
    disabled = agent.invoke("set_service", **first)
    assert (disabled["host"], disabled["disabled"]) == (NODE.host, True)
    assert disabled["disabled_reason"] == "new disks"
    assert agent.invoke("set_service", **first) == disabled
    enabled = agent.invoke("set_service", disabled=False, operation_id=uid())
    assert agent.invoke("set_service", **first) == enabled
    with pytest.raises(errors.ClaimConflict):
        agent.invoke("set_service", disabled=True, operation_id=first["operation_id"])
    assert not agent.registry.services()[0].disabled


def test_restored_database_is_shown_and_accepted_after_an_audit(agent: Agent):
    assert agent.invoke("get_restore") == {"restore": None, "sentence": "", "orphans": []}
    copies = MemoryDatabase(agent.memory.disk)
    copy = copies.take()
    lost = agent.invoke("instance_claim", **build())
    owner = lost["owner_id"]
    agent.hypervisor.start_domain(owner, vcpus=1, memory_mb=1024)
    copies.put(copy)
    agent.tracker.check_position()
    assert agent.tracker.recover()

    for method, document in (
        ("instance_claim", build()),
        ("test_claim", {"instance": build()["instance"]}),
        ("claim_pci_devices", attach(build()["instance"])),
        ("rebuild_claim", build(migration=migration("evacuation"))),
    ):
        with pytest.raises(errors.StoreRestored, match="rtagent node accept-restore"):
            agent.invoke(method, **document)
    shown = agent.invoke("get_restore")
    (difference,) = shown["restore"]["differences"]
    states = {"acknowledged": "building", "stored": None}
    assert difference == {"claim_uuid": lost["uuid"], "owner_id": owner, **states}
    assert shown["sentence"].startswith("the database went back from revision")
    assert shown["orphans"] == []

    accept = {"revision": shown["restore"]["revision"], "operation_id": uid()}
    with pytest.raises(errors.RestoreNotFound):
        agent.invoke("accept_restore", **accept | {"revision": 1, "operation_id": uid()})
    agent.hypervisor.lost = True
    with pytest.raises(errors.HypervisorUnavailable):
        agent.invoke("accept_restore", **accept)
    agent.hypervisor.lost, agent.hypervisor.incomplete = False, True
    with pytest.raises(errors.NodeNotReady, match="because the audit was not good"):
        agent.invoke("accept_restore", **accept)
    agent.hypervisor.incomplete = False
    accepted = agent.invoke("accept_restore", **accept)
    assert [orphan["domain_uuid"] for orphan in accepted["orphans"]] == [owner]
    assert accepted["restore"]["differences"] == [difference]
    agent.invoke("accept_restore", **accept)
    assert agent.invoke("get_restore")["restore"] is None
    with pytest.raises(errors.ComputeResourcesUnavailable):
        agent.invoke("instance_claim", **build(vcpus=8))
    assert agent.invoke("instance_claim", **build(vcpus=7))


def test_ping_reports_agent_and_node(agent: Agent):
    agent.clock.advance(7)
    ids = {"node_uuid": NODE.uuid, "agent_uuid": agent.identity.agent_uuid}
    names = {"version": VERSION, "host": NODE.host, "node": NODE.hypervisor_hostname}
    times = {"uptime": 7.0, "time": "2026-01-02T12:00:07.000Z"}
    revision = agent.tracker.snapshot().revision
    assert agent.invoke("ping") == {**names, **ids, **times, "revision": revision}


def test_a_node_drains_until_undrained_and_a_day_that_does_not_exist_is_no_deadline(agent: Agent):
    deadline = "2030-01-31T18:00:00Z"
    drained = agent.invoke("drain_node", reason="disks", deadline=deadline, operation_id=uid())
    assert (drained["draining"], drained["reason"]) == (True, "disks")
    assert drained["deadline"] == deadline
    assert not agent.invoke("undrain_node", operation_id=uid())["draining"]
    with pytest.raises(errors.InvalidRequest, match="is not a time"):
        agent.invoke("drain_node", deadline="2030-02-31T18:00:00Z", operation_id=uid())


@pytest.mark.parametrize("seconds", [-3600, 3600])
def test_skew_is_that_of_the_server_to_this_clock(seconds: int):
    def ping() -> dict[str, str]:
        return {"time": clock_text(datetime.now(UTC) + timedelta(seconds=seconds))}

    assert clock_skew(ping) == pytest.approx(-seconds, abs=30)


def test_schedulers_ask_for_reports(agent: Agent):
    assert agent.invoke("report_host_state", instances=True) is None
    assert agent.invoke("report_host_state", description=True) is None
    assert agent.asked == [(False, True), (True, False)]


def test_schedulers_correct_whether_the_host_is_forced_down(agent: Agent):
    for forced_down in (True, False):
        assert agent.invoke("update_forced_down", forced_down=forced_down) is None
        [service] = agent.registry.services()
        assert (service.host, service.forced_down) == (NODE.host, forced_down)


PATIENCE = 60.0


def test_two_hundred_callers_cause_two_runs_and_an_error_is_of_one_run_only():
    began, go, runs = threading.Semaphore(0), threading.Semaphore(0), list[None]()

    def run() -> int:
        runs.append(None)
        began.release()
        assert go.acquire(timeout=PATIENCE)
        if len(runs) == 1:
            raise KeyError("a defect")
        return len(runs)

    shared = SharedCall("run", run)
    with ThreadPoolExecutor(1) as threads:
        first = threads.submit(shared.result, PATIENCE)
        assert began.acquire(timeout=PATIENCE)
        for _ in range(199):
            with pytest.raises(TimeoutError):
                shared.result(0)  # this caller has joined a run when it gives up
        assert len(runs) == 1
        go.release(2)
        with pytest.raises(KeyError):
            first.result()
        assert began.acquire(timeout=PATIENCE)
        # No caller waits for a third run: this call is the first one that causes it.
        go.release()
        assert shared.result(PATIENCE) == 3
