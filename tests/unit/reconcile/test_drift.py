"""Orphans, drift, suspects, and resources that claims hold and that the host lacks."""

from msgspec.structs import replace

from rtagent.model.policy import NumaPolicy, Policy
from rtagent.reconcile.drift import ABSENT, DIFFERENT, absent, drifts, orphans, suspects
from tests.support import hosts
from tests.support.agents import LARGE, SMALL, Agent, facts
from tests.support.claims import pinned_claim
from tests.support.device_states import SEV, build_claim, encrypted, sev_host, with_builds
from tests.support.numa_hosts import NO_SMT

CLAIMS = (pinned_claim(4, 6, kept=(5,), owner=hosts.uid(1)), pinned_claim(2, owner=hosts.uid(2)))


def state_with(dedicated: set[int], topology=NO_SMT):
    """A host with two pinned claims and these dedicated CPUs."""
    policy = Policy(numa=NumaPolicy(cpu_dedicated_set=frozenset(dedicated)))
    return hosts.with_claims(replace(hosts.host(topology), policy=policy), CLAIMS)


def lines(state):
    return [(one.owner_id, one.claim_uuid, one.resource, one.problem) for one in absent(state)]


def test_absent_cpu_is_not_drift_and_is_printed_as_a_sentence():
    assert drifts(state_with({2, 4})) == ()
    (one,) = absent(state_with({2, 4}))
    sentence = "host CPU 6 is claimed, but is gone, offline or not configured"
    assert str(one) == f"instance {hosts.uid(1)}: {sentence}"


def test_encryption_that_the_host_does_not_support_any_more_is_absent():
    state = with_builds(sev_host(SEV), encrypted())
    assert lines(state) == []
    (line,) = lines(replace(state, topology=hosts.TOPOLOGY))
    assert line[2:] == ("MEM_ENCRYPTION_CONTEXT amd-sev", ABSENT)


def test_orphans_drift_and_suspects_are_distinguished():
    owner, foreign = hosts.uid(), hosts.uid()
    state, claim = build_claim(hosts.host(), hosts.request(2, 100, owner=owner))
    state = hosts.observed(state, hosts.domain_usage(owner, 3, 100), hosts.domain_usage(foreign))
    assert [usage.domain_uuid for usage in orphans(state)] == [foreign]
    (drift,) = drifts(state)
    assert (drift.owner_id, drift.claim_uuid, drift.unit) == (owner, claim.uuid, "vCPUs")
    assert (drift.resource, drift.claimed, drift.observed) == ("VCPU", 2, 3)
    assert drift.problem == DIFFERENT
    assert suspects(state) == ()


def test_domain_of_a_resize_on_one_host_enacts_the_old_claim_or_the_new_one():
    agent = Agent()
    old = agent.run(SMALL)
    here = agent.node.host, agent.node.hypervisor_hostname
    names = ("source_compute", "source_node", "dest_compute", "dest_node")
    agent.claim_move(facts(**dict(zip(names, here * 2, strict=True))), LARGE)
    for vcpus, memory_mb, differing in (
        (SMALL.vcpus, SMALL.memory_mb, set()),
        (LARGE.vcpus, LARGE.memory_mb, set()),
        (LARGE.vcpus, SMALL.memory_mb, {"VCPU"}),
    ):
        state = hosts.observed(agent.state, hosts.domain_usage(old.owner_id, vcpus, memory_mb))
        found = drifts(state)
        assert {drift.resource for drift in found} == differing
        assert {drift.claim_uuid for drift in found} <= {old.uuid}


def test_nothing_is_absent_on_a_host_that_was_never_observed():
    assert lines(state_with({4}, topology=None)) == []
