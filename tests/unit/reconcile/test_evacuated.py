"""What an audit may conclude about claims in moves, and about evacuated guests."""

from msgspec.structs import replace

from rtagent.model.claim import EVACUATION, LIVE_MIGRATION
from rtagent.model.migration import TakenOver
from rtagent.model.observation import Domain, Observation
from rtagent.model.request import Flavor
from rtagent.reconcile.drift import drifts
from rtagent.reconcile.plan import apply, plan
from tests.support.hosts import TOPOLOGY, uid
from tests.support.move_host import GUEST, LARGE, SMALL, Host, facts


def domain(flavor=SMALL, running=True):
    sizes = {"vcpus": flavor.vcpus, "memory_mb": flavor.memory_mb}
    return Domain(uuid=GUEST, name="guest", active=running, **sizes)


def audit(host, *domains, lapsed=(), complete=True, evacuated=None):
    """Audit a host that has these domains, and return the steps."""
    there = {each.uuid: each for each in domains}
    seen = Observation(domains=there, complete=complete, topology=TOPOLOGY)
    base = host.state
    steps = plan(base, seen, frozenset(lapsed), evacuated)
    change, _ = apply(base, steps, base.revision, host.now)
    if change is not None:
        host.state = base.fold(change)
        host.state.check()
    return steps


# -- evacuated while this host was away ---------------------------------------------------------


def returned():
    source = Host.named(1)
    claim = source.build()
    return source, claim, {claim.uuid: TakenOver(host="h2", migration_uuid=uid(5))}


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


def test_evacuated_guest_that_still_runs_counts_in_the_same_change():
    source, _, fact = returned()
    assert len(audit(source, domain(), evacuated=fact)) == 1
    assert (source.states, source.usage.memory_mb) == ([], 1024)
    assert source.state.domain_usages[GUEST].vcpus == 1
    audit(source)
    assert source.usage.memory_mb == 0


def test_claim_is_not_released_while_the_guests_usage_is_unknown():
    source, _, fact = returned()
    audit(source, replace(domain(), vcpus=None), evacuated=fact)
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
