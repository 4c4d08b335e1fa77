"""Each method, called as the dispatcher calls it."""

import json
import logging

import jsonschema
import pytest
from oslo_context.context import RequestContext

from rtagent.errors import (
    ClaimConflict,
    ClaimExpired,
    ClaimNotFound,
    ComputeResourcesUnavailable,
    CpuPowerFailed,
    HypervisorUnavailable,
    IllegalTransition,
    InvalidRequest,
    NodeNotFound,
    NodeNotReady,
    PlacementUnavailable,
    PropertyConflict,
    StoreUnavailable,
)
from rtagent.model.numa_policy import NumaPolicy
from rtagent.model.policy import Policy
from rtagent.rpc import schemas
from rtagent.rpc.context import ContextSerializer
from rtagent.rpc.methods import METHODS
from tests.builders import NODE, uid
from tests.numa_hosts import NO_SMT
from tests.rpc_agents import VERSION, Agent, attach, build, documents, migration


@pytest.fixture
def agent() -> Agent:
    return Agent()


def change(claim: dict) -> dict:
    return {"claim_uuid": claim["uuid"], "operation_id": uid()}


def test_every_reply_is_json_and_keeps_to_its_schema(agent: Agent):
    calls = documents()
    assert set(calls) == set(METHODS)
    for name, arguments in calls.items():
        reply = agent.invoke(name, **arguments, node=NODE.hypervisor_hostname)
        assert json.loads(json.dumps(reply)) == reply
        jsonschema.validate(reply, schemas.reply(METHODS[name]))


def test_a_claim_brings_the_xml_that_enacts_it(agent: Agent):
    claim = agent.invoke("instance_claim", **build(vcpus=2, memory_mb=2048))
    assert "<vcpu" in claim["guest"] and ">2</vcpu>" in claim["guest"]
    assert agent.invoke("get_claim", claim_uuid=claim["uuid"])["claim"]["guest"] == claim["guest"]


def test_a_claim_has_the_fields_that_the_contract_names(agent: Agent):
    arguments = build(vcpus=2, memory_mb=2048, tag="a tag")
    claim = agent.invoke("instance_claim", **arguments)
    assert set(claim) == {
        *("uuid", "host", "node", "node_uuid", "owner_type", "owner_id", "kind", "state"),
        *("suspect", "vcpus", "pcpus", "memory_mb", "disk_mb", "numa_topology", "pci"),
        *("pci_replaced", "resources"),
        *("extra_resource", "tag", "migration_uuid", "created_at", "updated_at", "expires_at"),
        *("revision", "instance", "flavor", "image", "pci_requests", "limits"),
        *("guest", "node_devices"),
    }
    assert claim["uuid"] == arguments["operation_id"]
    assert (claim["kind"], claim["state"]) == ("build", "building")
    assert (claim["vcpus"], claim["memory_mb"], claim["tag"]) == (2, 2048, "a tag")


def test_a_claims_life(agent: Agent):
    claim = agent.invoke("instance_claim", **build())
    assert agent.invoke("renew_claim", **change(claim))["state"] == "building"
    assert agent.invoke("activate_claim", **change(claim))["state"] == "active"
    assert agent.invoke("get_claim", claim_uuid=claim["uuid"])["claim"]["state"] == "active"
    assert agent.invoke("release_claim", **change(claim)) is None
    with pytest.raises(ClaimNotFound):
        agent.invoke("get_claim", claim_uuid=claim["uuid"])
    assert agent.tracker.snapshot().usage.vcpus == 0


def test_what_a_guest_needs_is_ready_before_its_caller_may_start_it(agent: Agent):
    ready = {"activate_claim", "resize_claim", "live_migration_claim", "rebuild_claim"}
    ready |= {"finish_revert"}
    assert {name for name in METHODS if "CpuPowerFailed" in METHODS[name].all_errors} == ready
    for name, arguments in documents().items():
        before = len(agent.settled)
        reply = agent.invoke(name, **arguments)
        if name in ready:
            assert agent.settled[before:] == [reply["uuid"]], name
        else:
            assert agent.settled[before:] == [], name


def test_a_guest_that_cannot_be_made_ready_is_asked_for_again(agent: Agent):
    claim = agent.invoke("instance_claim", **build())
    again = change(claim)
    agent.unsettled = CpuPowerFailed(cpu=3, file="online", wanted="1", why="it is stuck")
    with pytest.raises(CpuPowerFailed):
        agent.invoke("activate_claim", **again)
    agent.unsettled = None
    assert agent.invoke("activate_claim", **again)["state"] == "active"
    assert agent.settled == [claim["uuid"]]


def test_a_repeat_gets_the_claim_as_it_is_now(agent: Agent):
    arguments = build()
    claim = agent.invoke("instance_claim", **arguments)
    agent.invoke("activate_claim", **change(claim))
    assert agent.invoke("instance_claim", **arguments)["state"] == "active"
    agent.invoke("release_claim", **change(claim))
    with pytest.raises(ClaimExpired):
        agent.invoke("instance_claim", **arguments)


def test_an_operation_id_with_other_content_is_a_conflict(agent: Agent):
    arguments = build()
    agent.invoke("instance_claim", **arguments)
    with pytest.raises(ClaimConflict):
        agent.invoke("instance_claim", **{**arguments, "tag": "other"})


def test_an_abort_that_comes_first_wins(agent: Agent):
    arguments = build()
    agent.invoke("abort_instance_claim", claim_uuid=arguments["operation_id"], operation_id=uid())
    with pytest.raises(ClaimExpired):
        agent.invoke("instance_claim", **arguments)


def test_a_build_that_is_moving_away_is_not_given_up(agent: Agent):
    claim = agent.invoke("instance_claim", **build())
    agent.invoke("activate_claim", **change(claim))
    out = {"instance_uuid": claim["owner_id"], "migration": migration("migration")}
    agent.invoke("start_move_out", **out, operation_id=uid())
    with pytest.raises(IllegalTransition):
        agent.invoke("abort_instance_claim", **change(claim))
    assert "IllegalTransition" in METHODS["abort_instance_claim"].all_errors


def test_a_refusal_carries_every_reason(agent: Agent):
    arguments = build(vcpus=9, memory_mb=10**6)
    with pytest.raises(ComputeResourcesUnavailable) as refused:
        agent.invoke("instance_claim", **arguments)
    reasons = refused.value.kwargs["reasons"]
    assert [reason["resource"] for reason in reasons] == ["VCPU", "MEMORY_MB"]
    verdict = agent.invoke("test_claim", instance=arguments["instance"])
    assert verdict == {"granted": False, "claim": None, "reasons": reasons}


def test_a_test_grants_without_claiming(agent: Agent):
    before = agent.tracker.snapshot()
    verdict = agent.invoke("test_claim", instance=build(vcpus=2)["instance"], tag="t")
    assert verdict["granted"] and verdict["reasons"] == []
    assert (verdict["claim"]["vcpus"], verdict["claim"]["tag"]) == (2, "t")
    assert verdict["claim"]["uuid"] == "00000000-0000-0000-0000-000000000000"
    assert agent.tracker.snapshot() is before


def test_devices_to_be_added_are_tested_as_they_would_be_claimed(agent: Agent):
    guest = build()
    asked = attach(guest["instance"])
    tested = {"kind": "attach", "instance": asked["instance"]}
    tested["pci_requests"] = asked["pci_requests"]
    with pytest.raises(ClaimNotFound):
        agent.invoke("test_claim", **tested)
    agent.invoke("instance_claim", **guest)
    before = agent.tracker.snapshot()
    verdict = agent.invoke("test_claim", **tested)
    assert agent.tracker.snapshot() is before
    claim = agent.invoke("claim_pci_devices", **asked)
    assert verdict["claim"]["kind"] == "attach"
    assert verdict["claim"]["pci"] == claim["pci"] != []
    many = {**tested, "pci_requests": [{"count": 4, "alias_name": "vf"}]}
    verdict = agent.invoke("test_claim", **many)
    assert [(each["requested"], each["available"]) for each in verdict["reasons"]] == [(4, 3)]


def test_a_claim_that_lives_and_adds_no_devices_has_not_ended(agent: Agent):
    claim = agent.invoke("instance_claim", **build())
    other = agent.invoke("instance_claim", **build())
    added = agent.invoke(
        "claim_pci_devices", **attach({"uuid": claim["owner_id"], "flavor": claim["flavor"]})
    )
    for wrong in (claim, {**added, "owner_id": other["owner_id"]}):
        its = {"instance_uuid": wrong["owner_id"], "claim_uuid": wrong["uuid"]}
        for name in ("allocate_pci_devices_for_instance", "unclaim_pci_devices"):
            with pytest.raises(ClaimNotFound):
                agent.invoke(name, **its, operation_id=uid())


ONE_VF = [{"count": 1, "alias_name": "vf"}]
BIGGER = {"vcpus": 9, "memory_mb": 1024}


@pytest.mark.parametrize(
    ("asked", "wrong"),
    [
        ({"kind": "attach"}, ["pci_requests: is required for kind attach"]),
        ({"pci_requests": ONE_VF}, ["pci_requests: is not for kind build"]),
        ({"flavor": BIGGER}, ["flavor: is not for kind build"]),
        ({"kind": "resize"}, ["flavor: is required for kind resize"]),
        (
            {"kind": "live-migration", "flavor": BIGGER, "image": {}},
            ["flavor: is not for kind live-migration", "image: is not for kind live-migration"],
        ),
        ({"kind": "evacuation", "flavor": BIGGER}, ["flavor: is not for kind evacuation"]),
        (
            {"kind": "attach", "pci_requests": ONE_VF, "limits": {}, "source": {}},
            ["limits: is not for kind attach", "source: is not for kind attach"],
        ),
    ],
)
def test_a_test_takes_what_its_claims_own_call_takes(agent: Agent, asked, wrong):
    with pytest.raises(InvalidRequest) as refused:
        agent.invoke("test_claim", instance=build()["instance"], **asked)
    errors = refused.value.kwargs["errors"]
    assert [f"{each['path']}: {each['message']}" for each in errors] == [f"$.{w}" for w in wrong]


@pytest.mark.parametrize(
    ("kind", "more"),
    [("resize", {"flavor": BIGGER}), ("live-migration", {}), ("evacuation", {"image": {}})],
)
def test_a_test_of_a_move_needs_no_record_of_it(agent: Agent, kind, more):
    verdict = agent.invoke("test_claim", instance=build()["instance"], kind=kind, **more)
    assert verdict["granted"] == (kind != "resize")


def test_limits_and_extra_resources_reach_the_decision(agent: Agent):
    with pytest.raises(ComputeResourcesUnavailable) as refused:
        agent.invoke(
            "instance_claim",
            **build(vcpus=2, limits={"vcpu": 1}, extra_resource={"CUSTOM_THING": 3}),
        )
    missing = {reason["resource"] for reason in refused.value.kwargs["reasons"]}
    assert missing == {"VCPU", "CUSTOM_THING"}


@pytest.mark.parametrize("name", sorted(METHODS))
def test_another_node_is_not_found(agent: Agent, name: str):
    document = documents()[name]
    before = agent.tracker.snapshot()
    with pytest.raises(NodeNotFound) as refused:
        agent.invoke(name, **document, node="elsewhere")
    assert refused.value.kwargs == {"node": "elsewhere", "served": NODE.hypervisor_hostname}
    assert agent.tracker.snapshot() is before


def test_reads_are_marked(agent: Agent):
    claim = agent.invoke("instance_claim", **build())
    revision = agent.tracker.snapshot().revision
    reads = {
        "get_claim": {"claim_uuid": claim["uuid"]},
        "get_claims_for_instance": {"instance_uuid": claim["owner_id"]},
        "get_claims_for_host": {},
        "get_node": {},
    }
    fresh = {name: agent.invoke(name, **given) for name, given in reads.items()}
    agent.store.fail(StoreUnavailable, times=None)
    with pytest.raises(StoreUnavailable):
        agent.invoke("instance_claim", **build())
    for name, given in reads.items():
        assert (fresh[name]["revision"], fresh[name]["stale"]) == (revision, False)
        assert agent.invoke(name, **given) == {**fresh[name], "stale": True}
    assert fresh["get_claim"]["claim"] == claim
    assert fresh["get_claims_for_host"]["claims"] == [claim]
    assert fresh["get_node"]["node"]["vcpus_used"] == 1


def test_what_cannot_be_claimed_now_is_not_granted_by_a_test(agent: Agent):
    agent.store.fail(StoreUnavailable, times=None)
    arguments = build()
    with pytest.raises(StoreUnavailable) as refused:
        agent.invoke("instance_claim", **arguments)
    with pytest.raises(StoreUnavailable) as told:
        agent.invoke("test_claim", instance=arguments["instance"])
    assert told.value.message == refused.value.message
    assert "StoreUnavailable" in METHODS["test_claim"].all_errors


def test_claims_are_read_in_the_order_in_which_they_were_made(agent: Agent):
    made = []
    for _ in range(3):
        agent.clock.advance(1)
        made.append(agent.invoke("instance_claim", **build())["uuid"])
    read = agent.invoke("get_claims_for_host")["claims"]
    assert [claim["uuid"] for claim in read] == made
    assert agent.invoke("get_claims_for_instance", instance_uuid=uid())["claims"] == []


def test_creating_calls_wait_for_the_first_audit_and_others_do_not(agent: Agent):
    claim = agent.invoke("instance_claim", **build())
    agent.tracker.hold_back(NodeNotReady())
    for name in ("instance_claim", "test_claim"):
        arguments = build()
        if name == "test_claim":
            del arguments["operation_id"]
        with pytest.raises(NodeNotReady):
            agent.invoke(name, **arguments)
    agent.invoke("activate_claim", **change(claim))
    agent.invoke("release_claim", **change(claim))
    agent.invoke("ping")


def test_an_agent_that_holds_back_for_long_does_not_grow(agent: Agent):
    def frames_of_a_refusal() -> int:
        with pytest.raises(NodeNotReady) as refused:
            agent.invoke("instance_claim", **build())
        return len(refused.traceback)

    agent.tracker.hold_back(NodeNotReady())
    assert frames_of_a_refusal() == frames_of_a_refusal()


def test_an_audit_on_demand(agent: Agent):
    agent.hypervisor.start_domain(uid(), vcpus=1, memory_mb=512)
    summary = agent.invoke("update_available_resource")
    assert (summary["cause"], summary["orphans"], summary["complete"]) == ("request", 1, True)
    assert summary["sentence"] == str(agent.auditor.last)
    agent.hypervisor.lost = True
    with pytest.raises(HypervisorUnavailable):
        agent.invoke("update_available_resource")


def test_placement_is_synced_on_demand(agent: Agent):
    revision = agent.tracker.snapshot().revision
    assert agent.invoke("sync_placement") == {"revision": revision}
    agent.placement_fails = PlacementUnavailable("no answer")
    with pytest.raises(PlacementUnavailable, match="no answer"):
        agent.invoke("sync_placement")


def test_news_of_an_instance(agent: Agent):
    arguments = build()
    claim = agent.invoke("instance_claim", **arguments)
    news = {"uuid": claim["owner_id"], "vm_state": "active", "task_state": None}
    agent.invoke("update_usage", operation_id=uid(), instance=news)
    read = agent.invoke("get_claim", claim_uuid=claim["uuid"])["claim"]
    assert read["instance"]["vm_state"] == "active"
    agent.invoke("update_usage", operation_id=uid(), instance={**news, "vm_state": "deleted"})
    assert agent.invoke("get_claims_for_host")["claims"] == []


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


def test_a_service_that_is_enabled_again_is_not_disabled_by_a_call_that_comes_late(agent: Agent):
    first = {"disabled": True, "disabled_reason": "new disks", "operation_id": uid()}
    disabled = agent.invoke("set_service", **first)
    assert agent.invoke("set_service", **first) == disabled
    enabled = agent.invoke("set_service", disabled=False, operation_id=uid())
    assert agent.invoke("set_service", **first) == enabled
    with pytest.raises(ClaimConflict):
        agent.invoke("set_service", disabled=True, operation_id=first["operation_id"])
    assert not agent.registry.services()[0].disabled


def test_ping(agent: Agent):
    agent.clock.advance(7)
    assert agent.invoke("ping") == {
        "version": VERSION,
        "host": NODE.host,
        "node": NODE.hypervisor_hostname,
        "revision": agent.tracker.snapshot().revision,
        "uptime": 7.0,
    }


def test_user_and_request_id_reach_the_history(agent: Agent):
    context = RequestContext(user_id="alice", global_request_id=f"req-{uid()}", overwrite=False)
    claim = agent.invoke_as(context, "instance_claim", **build())
    local = RequestContext(user_id=None, overwrite=False)
    agent.invoke_as(local, "activate_claim", **change(claim))
    created, activated = agent.memory.history(NODE.uuid, claim["uuid"])
    assert (created.actor, created.request_id) == ("alice", context.global_request_id)
    assert (activated.actor, activated.request_id) == ("", local.request_id)


@pytest.mark.parametrize("strange", [{"a": 1}, 7, "x" * 1000, "a\0\ud800b", ["x"], True])
def test_a_strange_context_does_no_harm(agent: Agent, strange: object):
    context = ContextSerializer().deserialize_context(
        {"user": strange, "request_id": strange, "global_request_id": strange, "roles": strange}
    )
    claim = agent.invoke_as(context, "instance_claim", **build())
    (event,) = agent.memory.history(NODE.uuid, claim["uuid"])
    for kept in (event.actor, event.request_id):
        assert kept.isprintable() and len(kept) <= 255


def test_time_and_outcome_are_reported(agent: Agent):
    agent.invoke("ping")
    with pytest.raises(InvalidRequest):
        agent.invoke("ping", nonsense=1)
    assert agent.sample("rpc_seconds_count", method="ping") == 2
    assert agent.sample("rpc_total", outcome="ok") == 1
    assert agent.sample("rpc_total", outcome="InvalidRequest") == 1


def test_an_expected_error_is_one_line_in_the_log(agent: Agent, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO)
    with pytest.raises(InvalidRequest):
        agent.invoke("ping", **{"x" * 100_000: 1})
    (record,) = caplog.records
    assert record.levelno == logging.INFO and record.exc_info is None
    assert record.message.startswith("ping: invalid request") and len(record.message) < 2000


def test_nothing_is_in_flight_after_a_call(agent: Agent):
    seen = []
    agent.hypervisor.between = lambda _step: seen.append(str(agent.in_flight))
    agent.invoke("update_available_resource")
    assert seen and all(said.startswith("update_available_resource (req-") for said in seen)
    assert len(agent.in_flight) == 0


def test_a_place_crosses_the_wire_with_strings_for_keys(agent: Agent):
    agent.hypervisor.topology = NO_SMT
    sets = NumaPolicy(cpu_dedicated_set=frozenset({4, 5, 6}))
    agent.tracker.set_policy(Policy(numa=sets))
    agent.auditor.run("test")
    document = build(vcpus=2)
    document["instance"]["flavor"]["extra_specs"] = {"hw:cpu_policy": "dedicated"}

    claim = agent.invoke("instance_claim", **document)

    (cell,) = claim["numa_topology"]["cells"]
    assert (claim["pcpus"], claim["vcpus"]) == (2, 0)
    assert cell["cpu_pinning"] == {"0": 4, "1": 5}
    assert agent.invoke("get_claim", claim_uuid=claim["uuid"])["claim"] == claim
    jsonschema.validate(claim, schemas.reply(METHODS["instance_claim"]))


def test_a_flavor_that_contradicts_itself_names_both_sides(agent: Agent):
    document = build(vcpus=2)
    specs = {"hw:cpu_policy": "shared", "hw:cpu_thread_policy": "isolate"}
    document["instance"]["flavor"]["extra_specs"] = specs

    with pytest.raises(PropertyConflict) as refused:
        agent.invoke("instance_claim", **document)

    assert refused.value.kwargs["properties"] == specs
    assert not agent.tracker.snapshot().claims
