"""The published state: listeners, the notes of touched keys that audits need, and leases."""

import pytest

from rtagent.claims import abort_instance_claim, activate_claim, renew_claim
from rtagent.errors import ComputeResourcesUnavailable, StoreUnavailable
from rtagent.reconcile.steps import AuditStep, ClaimTransition
from rtagent.state.published import NOTES
from rtagent.testing.failpoints import FailingStore
from rtagent.testing.memory_store import MemoryStore
from tests.support.hosts import ManualClock, call
from tests.support.trackers import claim, release, tracker_on


def test_keys_touched_during_an_audit_stay_noted_until_its_end():
    tracker = tracker_on(MemoryStore())
    with tracker.observing() as base:
        early = claim(tracker)
        for _ in range(NOTES + 1):
            release(tracker, claim(tracker).uuid)
        lapsed = ClaimTransition(claim_uuid=early.uuid, verb="expire", reason="seen earlier")
        outcome = tracker.apply([AuditStep(key=early.owner_id, transitions=(lapsed,))], base)
    assert outcome.skipped == (early.owner_id,)
    assert early.uuid in tracker.snapshot().claims


def test_listeners_get_each_publication_with_the_state_that_it_made():
    tracker = tracker_on(MemoryStore())
    received = []
    tracker.listen(lambda state, changes: received.append((state, [c.cause for c in changes])))
    made = claim(tracker)
    with pytest.raises(ComputeResourcesUnavailable):
        claim(tracker, vcpus=9)
    ((state, causes),) = received
    assert made.uuid in state.claims and causes == ["instance_claim"]


def test_leases_lapse_by_the_monotonic_clock_alone():
    clock = ManualClock()
    tracker = tracker_on(MemoryStore(), clock)
    first, second, third = (claim(tracker) for _ in range(3))
    tracker.change(activate_claim, call("activate_claim"), third.uuid)
    clock.advance(200)
    tracker.change(renew_claim, call("renew_claim"), second.uuid)
    clock.advance(100)
    assert tracker.lapsed() == {first.uuid}
    tracker.restart_leases()
    assert not tracker.lapsed()
    clock.advance(300)
    assert tracker.lapsed() == {first.uuid, second.uuid}
    tracker.execute(abort_instance_claim, call("abort_instance_claim"), first.uuid)
    assert tracker.lapsed() == {second.uuid}


def test_leases_run_a_full_term_again_after_the_store_was_away():
    clock = ManualClock()
    store = FailingStore(MemoryStore())
    tracker = tracker_on(store, clock)
    claim(tracker)
    clock.advance(299)
    store.fail(StoreUnavailable)
    with pytest.raises(StoreUnavailable):
        claim(tracker)
    assert tracker.recover()
    clock.advance(299)
    assert not tracker.lapsed()
    clock.advance(1)
    assert len(tracker.lapsed()) == 1
