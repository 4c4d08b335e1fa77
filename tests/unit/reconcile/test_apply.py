"""Which steps of an audit still hold when they are applied."""

from msgspec.structs import replace

from rtagent import claims
from rtagent.model.claim import BUILDING
from rtagent.model.domain_usage import HostResource, Occupancy
from rtagent.model.event import DRIFT_FOUND
from rtagent.reconcile.plan import apply, plan
from tests.support.audits import CLAIM, OWNER, active, audited, building, domain, seen
from tests.support.hosts import NOON, call, uid


def released(state):
    return state.fold(claims.release_claim(state, call("release_claim"), NOON, CLAIM).change)


def renewed(state):
    return state.fold(claims.renew_claim(state, call("renew_claim"), NOON, CLAIM).change)


def test_what_is_unknown_is_recorded_whatever_touched_its_owner():
    unknown = Occupancy(unknown=frozenset({HostResource.DEVICES}))
    base = active()
    after, outcome = audited(base, seen(replace(domain(), occupancy=unknown)), state=renewed(base))
    assert (outcome.skipped, outcome.applied) == ((OWNER,), ())
    assert after.domain_usages[OWNER].occupancy == unknown


def test_owner_that_was_released_and_claimed_again_counts_as_touched():
    """The owner looks as it did at the base (ABA), but has another claim."""
    base = active()
    state = building(released(base), uid(3))
    after, outcome = audited(base, seen(), {CLAIM}, state=state)
    assert outcome.skipped == (OWNER,)
    assert after.claims[uid(3)].state == BUILDING


def test_steps_of_other_owners_are_applied_when_one_is_skipped():
    base = active()
    after, outcome = audited(base, seen(domain(uid(9))), state=renewed(base))
    assert (outcome.skipped, outcome.applied) == ((OWNER,), (uid(9),))
    assert uid(9) in after.domain_usages


def test_no_step_is_applied_if_the_base_is_older_than_a_reload():
    base = active()
    state = renewed(base)
    reloaded = replace(state, floor=state.revision, touched=state.pruned(state.revision).touched)
    _, outcome = audited(base, seen(), state=reloaded)
    assert outcome.skipped == (OWNER,)


def test_transitions_by_an_audit_are_in_the_claims_history():
    state = active()
    change, _ = apply(state, plan(state, seen(), frozenset()), state.revision, NOON)
    (event,) = change.events
    assert (event.action, event.after.suspect) == ("suspect", event.reason)
    assert change.actor == "audit"


def test_drift_that_an_audit_finds_is_an_event_of_its_change_once():
    state, drifting = active(), seen(domain(vcpus=3))
    change, _ = apply(state, plan(state, drifting, frozenset()), state.revision, NOON)
    found = [each for each in change.notifications if each.type == DRIFT_FOUND]
    assert [(each.payload.resource, each.payload.observed) for each in found] == [("VCPU", 3)]

    known, larger = state.fold(change), seen(domain(vcpus=3, memory_mb=2048))
    again, _ = apply(known, plan(known, larger, frozenset()), known.revision, NOON)
    assert [each.payload.resource for each in again.notifications] == ["MEMORY_MB"]
