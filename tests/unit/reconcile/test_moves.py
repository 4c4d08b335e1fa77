"""What an audit may conclude of claims that take part in moves, and what it may not."""

import pytest
from msgspec.structs import replace

from rtagent.model.claim import EVACUATION, LIVE_MIGRATION
from rtagent.model.flavor import Flavor
from rtagent.model.migration import TakenOver
from rtagent.model.observation import Domain, Observation
from rtagent.reconcile.apply import apply
from rtagent.reconcile.plan import plan
from rtagent.views import drifts
from tests.builders import TOPOLOGY, uid
from tests.move_rules import GUEST, LARGE, SMALL, Host, facts


def domain(flavor=SMALL, running=True):
    return Domain(
        uuid=GUEST,
        name="guest",
        active=running,
        vcpus=flavor.vcpus,
        memory_mb=flavor.memory_mb,
    )


def audit(host, *domains, lapsed=(), complete=True, evacuated=None):
    """What it does at once, from a look at these domains."""
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


def test_an_incoming_claim_is_not_activated_by_its_domain():
    dest = Host.named(2)
    told = facts(LIVE_MIGRATION)
    claim = dest.expects(told)
    assert audit(dest, domain(), lapsed=[claim.uuid]) == ()  # it is on its way, and it is here
    assert audit(dest) == ()  # or is not here yet
    assert only(dest).state == "incoming"


def test_a_lapsed_incoming_claim_ends_with_its_migration_in_error():
    dest = Host.named(2)
    told = facts()
    claim = dest.expects(told)
    audit(dest, lapsed=[claim.uuid], complete=False)
    assert dest.states == ["incoming"]
    audit(dest, lapsed=[claim.uuid])
    assert (dest.states, dest.status(told)) == ([], "error")


def test_while_its_domain_is_here_even_shut_off_a_lapsed_claim_stays():
    dest = Host.named(2)
    claim = dest.expects(facts())
    audit(dest, domain(running=False), lapsed=[claim.uuid])
    assert dest.states == ["incoming"]


def test_a_guest_that_has_left_is_not_missed():
    source = Host.named(1)
    source.runs()
    source.starts_out(facts())
    assert audit(source) == ()
    assert only(source).suspect is None


def test_one_that_came_back_is():
    source = Host.named(1)
    source.runs()
    told = facts()
    source.starts_out(told)
    source.takes_back(told)
    audit(source)
    assert only(source).suspect
    audit(source, domain())
    assert only(source).suspect is None


@pytest.mark.parametrize("flavor", [SMALL, LARGE])
def test_of_a_resize_on_one_host_the_domain_may_match_either_claim(flavor):
    here = Host()
    here.runs()
    told = facts()
    here.expects(told, LARGE)
    for step in (here.starts_out, here.finishes):
        assert audit(here, domain(flavor)) == ()
        step(told)
    assert audit(here, domain(flavor)) == ()
    assert here.usage.memory_mb == 4096


def test_a_domain_that_matches_neither_drifts_from_the_one_that_runs():
    here = Host()
    here.runs()
    told = facts()
    new = here.expects(told, LARGE)
    here.starts_out(told)
    here.finishes(told)
    audit(here, domain(Flavor(vcpus=7, memory_mb=3072)))
    (drift,) = drifts(here.state)
    assert (drift.claim_uuid, drift.claimed, drift.observed) == (new.uuid, 2, 7)


# -- evacuated while this host was away ---------------------------------------------------------


def returned():
    source = Host.named(1)
    claim = source.runs()
    return source, claim, {claim.uuid: TakenOver(host="h2", migration_uuid=uid(5))}


def test_what_another_node_has_taken_over_is_released():
    source, _, fact = returned()
    audit(source, evacuated=fact)
    assert (source.states, source.usage.memory_mb) == ([], 0)


def test_who_says_so_afterwards_releases_nothing_that_the_guest_has_here_by_then():
    source, _, fact = returned()
    audit(source, evacuated=fact)
    away = facts(EVACUATION, uid(5))
    assert source.status(away) == "completed"
    back = facts(LIVE_MIGRATION)
    source.expects(back)
    source.finishes(back)
    source.drops_source(away, {})
    assert source.states == ["active"]


def test_without_that_fact_it_stays_and_is_suspect():
    source, _, _ = returned()
    audit(source)
    assert only(source).suspect


def test_a_guest_of_it_that_still_runs_is_counted_in_the_same_change():
    source, _, fact = returned()
    steps = audit(source, domain(), evacuated=fact)
    assert len(steps) == 1
    assert (source.states, source.usage.memory_mb) == ([], 1024)
    assert source.state.holdings[GUEST].vcpus == 1
    audit(source)
    assert source.usage.memory_mb == 0


def test_nothing_is_released_while_it_cannot_be_said_what_the_guest_uses():
    source, _, fact = returned()
    unreadable = replace(domain(), vcpus=None)
    audit(source, unreadable, evacuated=fact)
    audit(source, complete=False, evacuated=fact)
    assert source.states == ["active"]


def test_what_was_kept_for_a_revert_of_an_earlier_move_is_released_too():
    source, _, fact = returned()
    told = facts()
    source.starts_out(told)
    audit(source, evacuated=fact)
    assert (source.states, source.status(told)) == ([], "error")


def test_a_guest_that_has_come_back_from_that_host_is_no_older_whatever_its_clock_says():
    back = Host.named(1)
    told = facts(LIVE_MIGRATION, source_compute="h2")
    claim = back.expects(told)
    back.finishes(told)
    audit(back, domain(), evacuated={claim.uuid: TakenOver(host="h2")})
    assert back.states == ["active"]


def test_what_an_evacuation_brings_here_is_none_of_it():
    here, old, fact = returned()
    told = facts(EVACUATION, source_compute="h3")
    here.expects(told)
    here.finishes(told)
    audit(here, domain(), evacuated=fact)
    assert old.uuid not in here.state.claims
    assert here.states == ["active"]
