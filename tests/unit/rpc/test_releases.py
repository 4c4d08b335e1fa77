"""Ends of claims by an operator: not while the guest runs, unless it is forced."""

import pytest

from rtagent.audit import Auditor
from rtagent.errors import ClaimNotFound, GuestRunning, NodeNotReady
from tests.support.hosts import NODE, uid
from tests.support.rpc import Agent, build, operation

METHODS = ("release_claim", "abort_instance_claim")


@pytest.fixture
def running(agent: Agent) -> str:
    """The uuid of an active claim whose guest runs."""
    arguments = build()
    claim = agent.invoke("instance_claim", **arguments)
    agent.invoke("activate_claim", claim_uuid=claim["uuid"], **operation())
    flavor = claim["flavor"]
    agent.hypervisor.start_domain(claim["owner_id"], flavor["vcpus"], flavor["memory_mb"])
    agent.auditor.run("test")
    uuid: str = claim["uuid"]
    return uuid


@pytest.mark.parametrize("method", METHODS)
def test_the_claim_of_a_running_guest_is_not_ended_unless_it_is_forced(agent, running, method):
    before = agent.tracker.snapshot()
    with pytest.raises(GuestRunning, match="--force and --reason"):
        agent.invoke(method, claim_uuid=running, unless_running=True, **operation())
    assert agent.tracker.snapshot() is before
    assert agent.invoke("test_release", claim_uuid=running)["guest_runs"]
    agent.invoke(method, claim_uuid=running, reason="it is stuck", **operation())
    assert running not in agent.tracker.snapshot().claims
    history = agent.memory.history(NODE.uuid, running)
    assert history[-1].reason == "it is stuck"


@pytest.mark.parametrize("method", METHODS)
def test_a_guest_that_was_stopped_does_not_keep_its_claim(agent, running, method):
    agent.hypervisor.shut_off(agent.tracker.snapshot().claims[running].owner_id)
    agent.auditor.run("test")
    tested = agent.invoke("test_release", claim_uuid=running)
    assert (tested["guest_runs"], tested["claim"]["uuid"]) == (False, running)
    arguments = {"claim_uuid": running, "unless_running": True} | operation()
    agent.invoke(method, **arguments)
    agent.invoke(method, **arguments)  # a repeat
    assert running not in agent.tracker.snapshot().claims


def test_a_conductor_ends_claims_without_asking(agent, running):
    agent.invoke("release_claim", claim_uuid=running, **operation())
    assert running not in agent.tracker.snapshot().claims


def test_before_the_first_audit_it_is_not_known_which_guests_run(agent):
    never = Auditor(agent.tracker, agent.hypervisor, agent.clock, agent.telemetry)
    agent.serve(auditor=never)
    with pytest.raises(NodeNotReady, match="not known yet which guests run"):
        agent.invoke("release_claim", claim_uuid=uid(), unless_running=True, **operation())


def test_a_test_of_an_unknown_claim_says_so(agent):
    with pytest.raises(ClaimNotFound):
        agent.invoke("test_release", claim_uuid=uid())
