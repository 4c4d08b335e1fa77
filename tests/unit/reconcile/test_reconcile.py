"""plan and apply: what an audit may conclude, and what it may not."""

import pytest
from msgspec.structs import replace

from rtagent import claims
from rtagent.model.claim import ACTIVE, BUILDING
from rtagent.model.host import HOST
from rtagent.model.observation import Domain, Observation
from rtagent.reconcile.apply import apply
from rtagent.reconcile.plan import plan
from tests.builders import NOON, TOPOLOGY, call, host, request, uid

OWNER, CLAIM = uid(1), uid(2)


def building(state=None):
    asked = request(2, 1024, owner=OWNER, claim=CLAIM)
    state = state or host()
    return state.fold(claims.build(state, asked, call(operation_id=CLAIM), NOON).change)


def active():
    state = building()
    return state.fold(claims.activate(state, CLAIM, call("activate_claim"), NOON).change)


def domain(uuid=OWNER, vcpus=2, memory_mb=1024, running=True):
    return Domain(uuid=uuid, name="vm", active=running, vcpus=vcpus, memory_mb=memory_mb)


def seen(*domains, complete=True, topology=TOPOLOGY):
    return Observation(domains={d.uuid: d for d in domains}, complete=complete, topology=topology)


def audited(base, observation, lapsed=(), state=None):
    state = state or base
    change, outcome = apply(state, plan(base, observation, frozenset(lapsed)), base.revision, NOON)
    after = state.fold(change) if change else state
    after.check()
    return after, outcome


def test_nothing_to_do_is_no_step_at_all():
    assert plan(active(), seen(domain()), frozenset()) == ()


def test_a_building_claim_is_activated_when_its_domain_appears():
    after, _ = audited(building(), seen(domain()))
    assert after.claims[CLAIM].state == ACTIVE
    assert after.claims[CLAIM].expires_at is None


@pytest.mark.parametrize("running", [True, False])
def test_a_domain_that_is_only_defined_is_present(running):
    assert plan(active(), seen(domain(running=running)), frozenset()) == ()


def test_an_active_claim_without_a_domain_is_suspect_and_still_counted():
    after, _ = audited(active(), seen())
    assert after.claims[CLAIM].suspect
    assert after.usage == active().usage


def test_a_suspect_is_trusted_again_when_its_domain_is_back():
    missed, _ = audited(active(), seen())
    after, _ = audited(missed, seen(domain()))
    assert after.claims[CLAIM].suspect is None


def test_a_building_claim_without_a_domain_just_waits():
    assert plan(building(), seen(), frozenset()) == ()


def test_a_lapsed_lease_ends_when_the_host_was_seen_whole_and_no_domain_is_there():
    after, outcome = audited(building(), seen(), {CLAIM})
    assert not after.claims
    assert outcome.applied == (OWNER,)


def test_a_lapsed_lease_does_not_end_while_the_domain_is_there():
    after, _ = audited(building(), seen(domain()), {CLAIM})
    assert after.claims[CLAIM].state == ACTIVE


def test_an_incomplete_observation_concludes_nothing_from_absence():
    assert plan(building(), seen(complete=False), frozenset({CLAIM})) == ()
    assert plan(active(), seen(complete=False), frozenset()) == ()
    orphan, _ = audited(host(), seen(domain()))
    assert plan(orphan, seen(complete=False), frozenset()) == ()


def test_a_domain_that_cannot_be_read_is_present():
    unread = Domain(uuid=OWNER, name="vm", active=True, vcpus=None, memory_mb=None)
    assert plan(active(), seen(unread), frozenset()) == ()
    orphan, _ = audited(host(), seen(domain()))
    assert plan(orphan, seen(unread), frozenset()) == (), "what was known of it stays"


def test_a_foreign_domain_is_counted_and_forgotten_when_it_is_gone():
    counted, _ = audited(host(), seen(domain(vcpus=3, memory_mb=500)))
    assert (counted.usage.vcpus, counted.usage.memory_mb) == (3, 500)
    after, _ = audited(counted, seen())
    assert (after.usage, after.holdings) == (host().usage, host().holdings)


def test_a_foreign_domain_counts_anew_when_it_starts_stops_or_changes():
    state, _ = audited(host(), seen(domain(running=False)))
    assert state.usage.vcpus == 0
    for running, vcpus, expected in ((True, 2, 2), (True, 4, 4), (False, 4, 0)):
        state, _ = audited(state, seen(domain(vcpus=vcpus, running=running)))
        assert state.usage.vcpus == expected


def test_drift_is_held_and_ends_with_the_difference():
    drifted, _ = audited(active(), seen(domain(vcpus=5)))
    assert drifted.usage.vcpus == 5
    assert drifted.claims[CLAIM].vcpus == 2, "never silently repaired"
    after, _ = audited(drifted, seen(domain()))
    assert (after.usage.vcpus, after.holdings) == (2, host().holdings)


def test_a_release_while_the_domain_still_differs_leaves_foreign_use():
    drifted, _ = audited(active(), seen(domain(vcpus=5)))
    ended = claims.end(drifted, CLAIM, "release", call("release_claim"), NOON)
    assert drifted.fold(ended.change).usage.vcpus == 5


def test_a_step_whose_owner_was_touched_since_the_base_is_skipped():
    base = active()
    ended = base.fold(claims.end(base, CLAIM, "release", call("release_claim"), NOON).change)
    after, outcome = audited(base, seen(), state=ended)
    assert outcome.skipped == (OWNER,)
    assert after == ended


def test_released_and_claimed_again_is_told_apart():
    """The owner looks as it did at the base (ABA), yet it is another claim."""
    base = active()
    state = base.fold(claims.end(base, CLAIM, "release", call("release_claim"), NOON).change)
    asked = request(2, 1024, owner=OWNER, claim=uid(3))
    state = state.fold(claims.build(state, asked, call(operation_id=uid(3)), NOON).change)
    after, outcome = audited(base, seen(), {CLAIM}, state=state)
    assert outcome.skipped == (OWNER,)
    assert after.claims[uid(3)].state == BUILDING


def test_others_are_not_held_up_by_what_is_skipped():
    base = active()
    renewed = base.fold(claims.renew(base, CLAIM, call("renew_claim"), NOON).change)
    after, outcome = audited(base, seen(domain(uid(9))), state=renewed)
    assert (outcome.skipped, outcome.applied) == ((OWNER,), (uid(9),))
    assert uid(9) in after.holdings


def test_a_base_from_before_a_reload_holds_for_nothing():
    base = active()
    state = base.fold(claims.renew(base, CLAIM, call("renew_claim"), NOON).change)
    reloaded = replace(state, floor=state.revision, touched=state.pruned(state.revision).touched)
    _, outcome = audited(base, seen(), state=reloaded)
    assert outcome.skipped == (OWNER,)


def test_a_changed_host_is_taken_over_and_an_unreadable_one_keeps_the_last_facts():
    smaller = replace(TOPOLOGY, cpus=frozenset({0}))
    after, outcome = audited(active(), seen(domain(), topology=smaller))
    assert after.topology == smaller
    assert outcome.applied == (HOST,)
    assert after.usage.vcpus == 2, "what is held stays held"
    assert plan(active(), seen(domain(), topology=None), frozenset()) == ()


def test_the_audits_doings_are_in_the_claims_history():
    change, _ = apply(active(), plan(active(), seen(), frozenset()), active().revision, NOON)
    (event,) = change.events
    assert (event.action, event.after.suspect) == ("suspect", event.reason)
    assert change.actor == "audit"
