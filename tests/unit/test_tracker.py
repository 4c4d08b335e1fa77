"""ResourceTracker: tests of claims, restarts, policies, many callers at once."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from rtagent.claims import activate_claim, instance_claim
from rtagent.errors import ComputeResourcesUnavailable
from rtagent.model.decision import Granted, Refused
from rtagent.testing.memory_store import MemoryStore
from tests.support.hosts import call, host, request
from tests.support.trackers import claim, release, tracker_on


def test_test_claim_gives_the_answer_of_a_claim_and_changes_nothing():
    tracker = tracker_on(MemoryStore())
    before = tracker.snapshot()
    assert isinstance(tracker.test_claim(instance_claim, request(8)), Granted)
    assert isinstance(tracker.test_claim(instance_claim, request(9)), Refused)
    assert tracker.snapshot() is before


def test_restart_finds_everything_that_was_granted():
    store = MemoryStore()
    tracker = tracker_on(store)
    held = [claim(tracker) for _ in range(3)]
    release(tracker, held[0].uuid)
    again = tracker_on(MemoryStore(store.disk))
    assert again.snapshot().claims == tracker.snapshot().claims
    assert again.snapshot().usage == tracker.snapshot().usage


def test_new_policy_applies_to_new_claims_and_the_same_policy_is_no_change():
    tracker = tracker_on(MemoryStore())
    claim(tracker, vcpus=6)
    tracker.set_policy(host(reserved_cpus=4).policy)
    state = tracker.snapshot()
    assert state.policy.reserved_cpus == 4 and state.usage.vcpus == 6
    with pytest.raises(ComputeResourcesUnavailable):
        claim(tracker)
    revision = state.revision
    tracker.set_policy(state.policy)
    assert tracker.snapshot().revision == revision


def test_concurrent_callers_are_never_granted_more_than_the_host_has():
    tracker = tracker_on(MemoryStore())

    def live(number):
        try:
            made = claim(tracker, vcpus=1 + number % 3, memory_mb=100)
        except ComputeResourcesUnavailable:
            return 0
        assert tracker.snapshot().usage.vcpus <= 8
        tracker.change(activate_claim, call("activate_claim"), made.uuid)
        release(tracker, made.uuid)
        return 1

    with ThreadPoolExecutor(max_workers=32) as pool:
        granted = sum(pool.map(live, range(300)))
    state = tracker.snapshot()
    state.check()
    assert granted and not state.claims and state.usage == host().usage
