"""The methods of claims and of adoption, called as oslo.messaging calls them."""

import re

import jsonschema
import pytest

from rtagent import errors
from rtagent.audit import Auditor
from rtagent.model.policy import NumaPolicy, Policy
from rtagent.rpc import schemas
from rtagent.rpc.claim_endpoint import MAX_CLAIMS
from rtagent.rpc.methods import METHODS
from tests.support.hosts import NODE, uid
from tests.support.numa_hosts import NO_SMT
from tests.support.rpc import ORPHAN, Agent, build, claim_change, documents, operation


def test_a_claim_is_built_activated_and_released(agent: Agent):
    claim = agent.invoke("instance_claim", **build())
    assert agent.invoke("renew_claim", **claim_change(claim))["state"] == "building"
    assert agent.invoke("activate_claim", **claim_change(claim))["state"] == "active"
    assert agent.invoke("get_claim", claim_uuid=claim["uuid"])["claim"]["state"] == "active"
    assert agent.invoke("release_claim", **claim_change(claim)) is None
    with pytest.raises(errors.ClaimNotFound):
        agent.invoke("get_claim", claim_uuid=claim["uuid"])
    assert agent.tracker.snapshot().usage.vcpus == 0


def test_pinned_cpus_are_sent_with_string_keys(agent: Agent):
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


def test_the_host_is_prepared_before_a_domain_may_be_started(agent: Agent):
    ready = {"activate_claim", "resize_claim", "live_migration_claim", "rebuild_claim"}
    ready |= {"finish_revert"}
    assert {name for name in METHODS if "CpuPowerFailed" in METHODS[name].all_errors} == ready
    agent.start_orphan()
    for name, arguments in documents().items():
        before = len(agent.settled)
        reply = agent.invoke(name, **arguments)
        assert agent.settled[before:] == ([reply["uuid"]] if name in ready else []), name


def test_exactly_the_calls_that_create_a_claim_wait_for_its_allocation(agent: Agent):
    waited = set()
    agent.start_orphan()
    for name, arguments in documents().items():
        before = len(agent.confirmed)
        agent.invoke(name, **arguments)
        calls, made = arguments.get("claims", [arguments]), METHODS[name].batch_of or name
        for asked, confirmed in zip(calls, agent.confirmed[before:], strict=False):
            assert confirmed == (asked["operation_id"], made)
            waited.add(name)
    creating = {"instance_claim", "instance_claims", "claim_pci_devices"}
    assert waited == creating | {"resize_claim", "live_migration_claim", "rebuild_claim"}


def test_a_failed_preparation_can_be_repeated(agent: Agent):
    claim = agent.invoke("instance_claim", **build())
    again = claim_change(claim)
    agent.settle_error = errors.CpuPowerFailed(cpu=3, file="online", wanted="1", why="it is stuck")
    with pytest.raises(errors.CpuPowerFailed):
        agent.invoke("activate_claim", **again)
    agent.settle_error = None
    assert agent.invoke("activate_claim", **again)["state"] == "active"
    assert agent.settled == [claim["uuid"]]


def test_a_refusal_has_every_reason_and_a_test_gives_the_same_answer(agent: Agent):
    arguments = build(vcpus=9, memory_mb=10**6)
    with pytest.raises(errors.ComputeResourcesUnavailable) as refused:
        agent.invoke("instance_claim", **arguments)
    reasons = refused.value.kwargs["reasons"]
    assert [reason["resource"] for reason in reasons] == ["VCPU", "MEMORY_MB"]
    verdict = agent.invoke("test_claim", instance=arguments["instance"])
    assert verdict == {"granted": False, "claim": None, "reasons": reasons}


def test_update_usage_changes_and_releases_claims(agent: Agent):
    claim = agent.invoke("instance_claim", **build())
    update = {"uuid": claim["owner_id"], "vm_state": "active", "task_state": None}
    agent.invoke("update_usage", operation_id=uid(), instance=update)
    read = agent.invoke("get_claim", claim_uuid=claim["uuid"])["claim"]
    assert read["instance"]["vm_state"] == "active"
    agent.invoke("update_usage", operation_id=uid(), instance={**update, "vm_state": "deleted"})
    assert agent.invoke("get_claims_for_host")["claims"] == []


def test_claims_of_one_call_have_an_answer_each(agent: Agent):
    small, large = build(), build(vcpus=9, memory_mb=10**6)
    conflicting = build()
    conflicting["instance"]["flavor"]["extra_specs"] = {"hw:cpu_policy": "wrong"}
    asked = [small, large, conflicting, build()]
    answers = agent.invoke("instance_claims", claims=asked)["answers"]
    made = [each["claim"] and each["claim"]["uuid"] for each in answers]
    assert made == [small["operation_id"], None, None, asked[3]["operation_id"]]
    refusals = [each["error"] and each["error"]["error"] for each in answers]
    assert refusals == [None, "ComputeResourcesUnavailable", "PropertyInvalid", None]
    assert answers[1]["error"]["reasons"][0]["resource"] == "VCPU"
    assert set(agent.tracker.snapshot().claims) == {uuid for uuid in made if uuid}
    jsonschema.validate({"answers": answers}, schemas.reply(METHODS["instance_claims"]))


def test_a_claim_of_many_is_the_claim_of_a_single_call(agent: Agent):
    one, other = build(vcpus=2), build(vcpus=3)
    single = agent.invoke("instance_claim", **one)
    answers = agent.invoke("instance_claims", claims=[one, other])["answers"]
    assert answers[0] == {"claim": single, "error": None}
    assert agent.invoke("instance_claim", **other) == answers[1]["claim"]
    assert agent.invoke("instance_claims", claims=[one, other])["answers"] == answers
    assert len(agent.tracker.snapshot().claims) == 2
    changed = {**other, "tag": "another"}
    (refused,) = agent.invoke("instance_claims", claims=[changed])["answers"]
    assert refused["error"]["error"] == "ClaimConflict"


@pytest.mark.parametrize(
    ("wrong", "error", "told"),
    [
        ([], errors.InvalidRequest, r"\$\.claims"),
        ([build()] * (MAX_CLAIMS + 1), errors.InvalidRequest, r"\$\.claims"),
        (
            [build(), build(vcpus=-1)],
            errors.InvalidRequest,
            r"\$\.claims\[1\]\.instance\.flavor\.vcpus",
        ),
        ([build(), build(node="elsewhere")], errors.NodeNotFound, "elsewhere"),
        ([build(), build(node_uuid=uid())], errors.NodeNotFound, NODE.uuid),
    ],
    ids=["none", "too-many", "invalid", "another-node", "another-nodes-uuid"],
)
def test_a_call_with_a_wrong_claim_has_no_effect(agent: Agent, wrong, error, told):
    with pytest.raises(error) as refused:
        agent.invoke("instance_claims", claims=wrong)
    assert re.search(told, str(refused.value.as_dict()))
    assert not agent.tracker.snapshot().claims


ENDS = ("release_claim", "abort_instance_claim")


@pytest.fixture
def running(agent: Agent) -> str:
    """The uuid of an active claim whose guest runs."""
    claim = agent.invoke("instance_claim", **build())
    agent.invoke("activate_claim", claim_uuid=claim["uuid"], **operation())
    flavor = claim["flavor"]
    agent.hypervisor.start_domain(claim["owner_id"], flavor["vcpus"], flavor["memory_mb"])
    agent.auditor.run("test")
    uuid: str = claim["uuid"]
    return uuid


@pytest.mark.parametrize("method", ENDS)
def test_the_claim_of_a_running_guest_is_not_ended_unless_it_is_forced(agent, running, method):
    before = agent.tracker.snapshot()
    with pytest.raises(errors.GuestRunning, match="--force and --reason"):
        agent.invoke(method, claim_uuid=running, unless_running=True, **operation())
    assert agent.tracker.snapshot() is before
    assert agent.invoke("test_release", claim_uuid=running)["guest_runs"]
    agent.invoke(method, claim_uuid=running, reason="it is stuck", **operation())
    assert running not in agent.tracker.snapshot().claims
    assert agent.memory.history(NODE.uuid, running)[-1].reason == "it is stuck"


@pytest.mark.parametrize("method", ENDS)
def test_a_guest_that_was_stopped_does_not_keep_its_claim(agent, running, method):
    agent.hypervisor.shut_off(agent.tracker.snapshot().claims[running].owner_id)
    agent.auditor.run("test")
    tested = agent.invoke("test_release", claim_uuid=running)
    assert (tested["guest_runs"], tested["claim"]["uuid"]) == (False, running)
    arguments = {"claim_uuid": running, "unless_running": True} | operation()
    agent.invoke(method, **arguments)
    agent.invoke(method, **arguments)  # a repeat
    assert running not in agent.tracker.snapshot().claims


def test_before_the_first_audit_it_is_not_known_which_guests_run(agent):
    never = Auditor(agent.tracker, agent.hypervisor, agent.clock, agent.telemetry)
    agent.serve(auditor=never)
    with pytest.raises(errors.NodeNotReady, match="not known yet which guests run"):
        agent.invoke("release_claim", claim_uuid=uid(), unless_running=True, **operation())


def test_a_domain_is_adopted_as_a_test_has_shown_and_a_repeat_gets_its_claim(agent: Agent):
    agent.start_orphan()
    before = agent.tracker.snapshot()
    tested = agent.invoke("test_adoption", domain_uuid=ORPHAN)
    assert agent.tracker.snapshot() is before
    arguments = {"domain_uuid": ORPHAN} | operation()
    adopted = agent.invoke("adopt_domain", **arguments)
    assert adopted["claim"]["uuid"] == arguments["operation_id"]
    assert adopted["claim"]["vcpus"] == tested["claim"]["vcpus"]
    assert adopted["notes"] == tested["notes"] != []
    assert agent.invoke("adopt_domain", **arguments)["claim"] == adopted["claim"]
    with pytest.raises(errors.ClaimConflict):
        agent.invoke("adopt_domain", domain_uuid=ORPHAN, **operation())


def test_a_drained_node_adopts_nothing_and_a_test_says_so(agent: Agent):
    agent.start_orphan()
    adopted = {"domain_uuid": ORPHAN} | operation()
    first = agent.invoke("adopt_domain", **adopted)
    agent.invoke("release_claim", claim_uuid=first["claim"]["uuid"], **operation())
    agent.auditor.run("test")
    agent.invoke("drain_node", reason="repair", **operation())
    for method, more in (("test_adoption", {}), ("adopt_domain", operation())):
        with pytest.raises(errors.NodeDraining, match="repair"):
            agent.invoke(method, domain_uuid=ORPHAN, **more)
