"""Adoption of domains over RPC."""

import pytest

from rtagent.errors import (
    ClaimConflict,
    DomainNotAdoptable,
    NodeDraining,
    StoreUnavailable,
)
from rtagent.reconcile.drift import orphans
from tests.support.hosts import uid
from tests.support.rpc import ORPHAN, Agent, operation


def test_an_adopted_domain_has_a_claim_and_a_repeat_gets_it(agent: Agent):
    agent.start_orphan()
    arguments = {"domain_uuid": ORPHAN} | operation()
    first = agent.invoke("adopt_domain", **arguments)
    assert first["claim"]["uuid"] == arguments["operation_id"]
    assert first["claim"]["state"] == "active"
    assert "disk is not counted" in first["notes"][0]

    revision = agent.tracker.snapshot().revision
    assert agent.invoke("adopt_domain", **arguments)["claim"] == first["claim"]
    with pytest.raises(ClaimConflict, match=arguments["operation_id"]):
        agent.invoke("adopt_domain", domain_uuid=ORPHAN, **operation())
    assert agent.tracker.snapshot().revision == revision
    summary = agent.auditor.run("test")
    assert (summary.orphans, summary.drifts, summary.applied) == (0, 0, 0)


def test_a_test_shows_the_claim_and_changes_nothing(agent: Agent):
    agent.start_orphan()
    before = agent.tracker.snapshot()
    flavor = {"name": "m1", "vcpus": 1, "memory_mb": 64, "root_gb": 2}
    tested = agent.invoke("test_adoption", domain_uuid=ORPHAN, flavor=flavor)
    assert (tested["claim"]["disk_mb"], tested["notes"]) == (2048, [])
    assert agent.tracker.snapshot() is before


def test_a_refused_domain_stays_an_orphan(agent: Agent):
    agent.start_orphan()
    agent.hypervisor.unreadable.add(ORPHAN)
    for method, more in (("test_adoption", {}), ("adopt_domain", operation())):
        with pytest.raises(DomainNotAdoptable, match="reading it failed"):
            agent.invoke(method, domain_uuid=ORPHAN, **more)
        with pytest.raises(DomainNotAdoptable, match="no domain with this uuid"):
            agent.invoke(method, domain_uuid=uid(), **(operation() if more else {}))
    assert [each.domain_uuid for each in orphans(agent.tracker.snapshot())] == [ORPHAN]


def test_a_test_of_an_adoption_fails_while_claims_cannot_be_made(agent: Agent):
    agent.start_orphan()
    agent.store.fail(StoreUnavailable, times=None)
    for method, more in (("adopt_domain", operation()), ("test_adoption", {})):
        with pytest.raises(StoreUnavailable):
            agent.invoke(method, domain_uuid=ORPHAN, **more)


def test_a_drained_node_adopts_nothing_and_a_test_says_so(agent: Agent):
    agent.start_orphan()
    adopted = {"domain_uuid": ORPHAN} | operation()
    first = agent.invoke("adopt_domain", **adopted)
    agent.invoke("release_claim", claim_uuid=first["claim"]["uuid"], **operation())
    agent.auditor.run("test")
    agent.invoke("drain_node", reason="repair", **operation())
    for method, more in (("test_adoption", {}), ("adopt_domain", operation())):
        with pytest.raises(NodeDraining, match="repair"):
            agent.invoke(method, domain_uuid=ORPHAN, **more)
