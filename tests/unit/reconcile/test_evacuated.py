"""What an audit may conclude about claims in moves, and about evacuated guests."""

import pytest
from msgspec.structs import replace

from rtagent.model.claim import EVACUATION, LIVE_MIGRATION
from rtagent.model.migration import TakenOver
from rtagent.model.observation import Domain, Observation
from rtagent.model.request import Flavor
from rtagent.reconcile.apply import apply
from rtagent.reconcile.drift import drifts
from rtagent.reconcile.plan import plan
from tests.support.hosts import TOPOLOGY, uid
from tests.support.move_host import GUEST, LARGE, SMALL, Host, facts


def domain(flavor=SMALL, running=True):
    return Domain(
        uuid=GUEST,
        name="guest",
        active=running,
        vcpus=flavor.vcpus,
        memory_mb=flavor.memory_mb,
    )


def audit(host, *domains, lapsed=(), complete=True, evacuated=None):
    """Audit a host that has these domains, and return the steps."""
    seen = Observation(
        domains={each.uuid: each for each in domains}, complete=complete, topology=TOPOLOGY
    )
    base = host.state
    steps = plan(base, seen, frozenset(lapsed), evacuated)
    change, _ = apply(base, steps, base.revision, host.now)
    if change is not None:
        host.state = base.fold(change)
        host.state.check()
    return steps


def only(host):
    (claim,) = host.state.claims_of(GUEST)
    return claim


def test_incoming_claim_is_not_activated_by_its_domain():
    dest = Host.named(2)
    migration = facts(LIVE_MIGRATION)
    claim = dest.claim_move(migration)
    assert audit(dest, domain(), lapsed=[claim.uuid]) == ()  # its domain is here already
    assert audit(dest) == ()  # or not yet
    assert only(dest).state == "incoming"


def test_lapsed_incoming_claim_ends_with_its_migration_in_error():
    dest = Host.named(2)
    migration = facts()
    claim = dest.claim_move(migration)
    audit(dest, lapsed=[claim.uuid], complete=False)
    assert dest.states == ["incoming"]
    audit(dest, lapsed=[claim.uuid])
    assert (dest.states, dest.status(migration)) == ([], "error")


def test_lapsed_incoming_claim_stays_while_its_domain_is_defined():
    dest = Host.named(2)
    claim = dest.claim_move(facts())
    audit(dest, domain(running=False), lapsed=[claim.uuid])
    assert dest.states == ["incoming"]


def test_outgoing_claim_without_a_domain_is_not_suspect():
    source = Host.named(1)
    source.build()
    source.start_move_out(facts())
    assert audit(source) == ()
    assert only(source).suspect is None


def test_reverted_claim_without_a_domain_is_suspect():
    source = Host.named(1)
    source.build()
    migration = facts()
    source.start_move_out(migration)
    source.finish_revert(migration)
    audit(source)
    assert only(source).suspect
    audit(source, domain())
    assert only(source).suspect is None


@pytest.mark.parametrize("flavor", [SMALL, LARGE])
def test_domain_may_match_either_claim_of_a_resize_on_one_host(flavor):
    here = Host()
    here.build()
    migration = facts()
    here.claim_move(migration, LARGE)
    for step in (here.start_move_out, here.finish_move):
        assert audit(here, domain(flavor)) == ()
        step(migration)
    assert audit(here, domain(flavor)) == ()
    assert here.usage.memory_mb == 4096


def test_domain_that_matches_neither_claim_drifts_from_the_active_one():
    here = Host()
    here.build()
    migration = facts()
    new = here.claim_move(migration, LARGE)
    here.start_move_out(migration)
    here.finish_move(migration)
    audit(here, domain(Flavor(vcpus=7, memory_mb=3072)))
    (drift,) = drifts(here.state)
    assert (drift.claim_uuid, drift.claimed, drift.observed) == (new.uuid, 2, 7)


# -- evacuated while this host was away ---------------------------------------------------------


def returned():
    source = Host.named(1)
    claim = source.build()
    return source, claim, {claim.uuid: TakenOver(host="h2", migration_uuid=uid(5))}


def test_claim_that_another_node_has_taken_over_is_released():
    source, _, fact = returned()
    audit(source, evacuated=fact)
    assert (source.states, source.usage.memory_mb) == ([], 0)


def test_later_confirmation_releases_no_claim_made_since():
    source, _, fact = returned()
    audit(source, evacuated=fact)
    away = facts(EVACUATION, uid(5))
    assert source.status(away) == "completed"
    back = facts(LIVE_MIGRATION)
    source.claim_move(back)
    source.finish_move(back)
    source.drop_at_source(away, {})
    assert source.states == ["active"]


def test_claim_that_no_node_has_taken_over_stays_suspect():
    source, _, _ = returned()
    audit(source)
    assert only(source).suspect


def test_evacuated_guest_that_still_runs_counts_in_the_same_change():
    source, _, fact = returned()
    steps = audit(source, domain(), evacuated=fact)
    assert len(steps) == 1
    assert (source.states, source.usage.memory_mb) == ([], 1024)
    assert source.state.domain_usages[GUEST].vcpus == 1
    audit(source)
    assert source.usage.memory_mb == 0


def test_claim_is_not_released_while_the_guests_usage_is_unknown():
    source, _, fact = returned()
    unreadable = replace(domain(), vcpus=None)
    audit(source, unreadable, evacuated=fact)
    audit(source, complete=False, evacuated=fact)
    assert source.states == ["active"]


def test_outgoing_claim_of_an_earlier_move_is_released_too():
    source, _, fact = returned()
    migration = facts()
    source.start_move_out(migration)
    audit(source, evacuated=fact)
    assert (source.states, source.status(migration)) == ([], "error")


def test_guest_that_came_back_from_that_host_keeps_its_claim_whatever_the_clocks_show():
    back = Host.named(1)
    migration = facts(LIVE_MIGRATION, source_compute="h2")
    claim = back.claim_move(migration)
    back.finish_move(migration)
    audit(back, domain(), evacuated={claim.uuid: TakenOver(host="h2")})
    assert back.states == ["active"]


def test_claim_of_an_evacuation_to_this_host_is_kept():
    here, old, fact = returned()
    migration = facts(EVACUATION, source_compute="h3")
    here.claim_move(migration)
    here.finish_move(migration)
    audit(here, domain(), evacuated=fact)
    assert old.uuid not in here.state.claims
    assert here.states == ["active"]
