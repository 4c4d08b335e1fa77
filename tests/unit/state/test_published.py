"""The published state: listeners, and the notes of touched keys that audits need."""

import pytest

from rtagent.errors import ComputeResourcesUnavailable
from rtagent.reconcile.steps import ClaimTransition, Step
from rtagent.state.published import NOTES
from rtagent.testing.memory_store import MemoryStore
from tests.support.trackers import claim, release, tracker_on


def test_keys_touched_during_an_audit_stay_noted_until_its_end():
    tracker = tracker_on(MemoryStore())
    with tracker.observing() as base:
        early = claim(tracker)
        for _ in range(NOTES + 1):
            release(tracker, claim(tracker).uuid)
        lapsed = ClaimTransition(claim_uuid=early.uuid, verb="expire", reason="seen earlier")
        outcome = tracker.apply([Step(key=early.owner_id, transitions=(lapsed,))], base)
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
