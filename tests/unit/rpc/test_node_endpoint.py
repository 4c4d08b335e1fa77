"""The methods of the node and its service."""

import pytest

from rtagent.errors import ClaimConflict, HypervisorUnavailable, PlacementUnavailable
from tests.support.hosts import NODE, uid
from tests.support.rpc import VERSION, Agent


def test_audit_on_request(agent: Agent):
    agent.hypervisor.start_domain(uid(), vcpus=1, memory_mb=512)
    summary = agent.invoke("update_available_resource")
    assert (summary["cause"], summary["orphans"], summary["complete"]) == ("request", 1, True)
    assert summary["sentence"] == str(agent.auditor.last)
    agent.hypervisor.lost = True
    with pytest.raises(HypervisorUnavailable):
        agent.invoke("update_available_resource")


def test_placement_sync_on_request(agent: Agent):
    revision = agent.tracker.snapshot().revision
    assert agent.invoke("sync_placement") == {"revision": revision}
    agent.placement_error = PlacementUnavailable("no answer")
    with pytest.raises(PlacementUnavailable, match="no answer"):
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


def test_the_service_is_disabled_with_a_reason(agent: Agent):
    arguments = {"disabled": True, "disabled_reason": "new disks", "operation_id": uid()}
    service = agent.invoke("set_service", **arguments)
    assert (service["host"], service["disabled"]) == (NODE.host, True)
    assert service["disabled_reason"] == "new disks"
    agent.invoke("set_service", disabled=False, operation_id=uid())
    assert not agent.registry.services()[0].disabled


def test_a_late_repetition_of_disable_does_not_undo_enable(agent: Agent):
    first = {"disabled": True, "disabled_reason": "new disks", "operation_id": uid()}
    disabled = agent.invoke("set_service", **first)
    assert agent.invoke("set_service", **first) == disabled
    enabled = agent.invoke("set_service", disabled=False, operation_id=uid())
    assert agent.invoke("set_service", **first) == enabled
    with pytest.raises(ClaimConflict):
        agent.invoke("set_service", disabled=True, operation_id=first["operation_id"])
    assert not agent.registry.services()[0].disabled


def test_ping_reports_agent_and_node(agent: Agent):
    agent.clock.advance(7)
    assert agent.invoke("ping") == {
        "version": VERSION,
        "host": NODE.host,
        "node": NODE.hypervisor_hostname,
        "revision": agent.tracker.snapshot().revision,
        "uptime": 7.0,
    }
