"""The state writer: group commit, its fallback, calls in flight, withdrawal, deadlocks, defects.

A store whose commit waits for the test shows which decisions share a commit, without a clock.
"""

import pytest

from rtagent import claims, errors
from rtagent.bus import Bus
from rtagent.model.change import Change
from rtagent.ports import NullReporter
from rtagent.state.restoration import MemoryWitness
from rtagent.state.writer import BATCH, StateWriter
from rtagent.testing.failpoints import FailingStore
from rtagent.testing.memory_store import MemoryStore
from tests.support.hosts import NODE, ManualClock, call, request, uid
from tests.support.trackers import (
    GatedStore,
    claim,
    enroll,
    gated_tracker,
    stored_state,
    tracker_on,
    wait_until_queued,
)


def writer_on(store):
    tracker_on(store)  # observes the host
    parts = (ManualClock(), enroll(store), NullReporter(), MemoryWitness())
    return StateWriter(store, *parts, 10.0, 5.0, Bus())


def test_grant_is_durable_before_it_is_visible(pool):
    tracker, store = gated_tracker()
    future = pool.submit(claim, tracker)
    assert store.entered.acquire(timeout=120)
    assert not tracker.snapshot().claims
    assert not future.done()
    store.admission.release()
    granted = future.result(timeout=120)
    assert tracker.snapshot().claims[granted.uuid] == granted
    assert stored_state(store).claims[granted.uuid] == granted


def test_waiting_callers_share_one_commit_and_each_gets_its_own_answer(pool):
    tracker, store = gated_tracker()
    first = pool.submit(claim, tracker, vcpus=1)
    assert store.entered.acquire(timeout=120)
    others = [pool.submit(claim, tracker, vcpus=v, memory_mb=100 * v) for v in (1, 9, 2)]
    wait_until_queued(tracker, 3)
    store.admission.release(2)
    assert first.result(120).vcpus == 1
    assert others[0].result(120).memory_mb == 100
    with pytest.raises(errors.ComputeResourcesUnavailable):
        others[1].result(120)
    assert others[2].result(120).memory_mb == 200
    assert store.commits == [1, 2], "the refused request is in no commit and fails no neighbour"
    tracker.snapshot().check()


def test_rejected_batch_is_committed_one_by_one_and_only_the_rejected_change_fails(pool):
    memory = MemoryStore()
    tracker_on(memory)
    doomed = call()
    # Another process writes the operation's row, of which this tracker's state knows nothing:
    other_process = tracker_on(MemoryStore(memory.disk))
    abort = call("abort_instance_claim")
    other_process.execute(claims.abort_instance_claim, abort, doomed.operation_id)
    store = GatedStore(memory)
    tracker = tracker_on(store)
    first = pool.submit(claim, tracker)
    assert store.entered.acquire(timeout=120)
    good = [pool.submit(claim, tracker) for _ in range(2)]
    bad = pool.submit(claim, tracker, asked=doomed)
    wait_until_queued(tracker, 3)
    store.admission.release(10)
    assert first.result(120) and all(future.result(120) for future in good)
    with pytest.raises(errors.ClaimExpired):
        bad.result(120)
    assert store.commits == [1, 3, 1, 1, 1]
    assert set(stored_state(store).claims) == set(tracker.snapshot().claims)


def test_waiter_withdraws_when_its_time_is_up_and_is_never_granted(pool):
    tracker, store = gated_tracker(timeout=1)
    first = pool.submit(claim, tracker)
    assert store.entered.acquire(timeout=120)
    late = pool.submit(claim, tracker)
    with pytest.raises(errors.TrackerBusy):
        late.result(120)
    store.admission.release(5)
    granted = first.result(120)
    assert set(tracker.snapshot().claims) == {granted.uuid}, "a leader waits for its outcome"
    assert claim(tracker).uuid, "the tracker serves further calls"


def test_deadlock_victim_queues_again_and_is_granted_once():
    store = FailingStore(MemoryStore())
    tracker = tracker_on(store)
    store.fail(errors.Deadlock, times=2)
    granted = claim(tracker)
    assert set(stored_state(store).claims) == {granted.uuid}
    assert not tracker.stale


def test_repeated_deadlocks_end_when_the_callers_time_is_up():
    clock = ManualClock()
    store = FailingStore(MemoryStore())
    tracker = tracker_on(store, clock)

    def deadlock():
        clock.advance(10)
        return errors.Deadlock()

    store.fail(deadlock, times=None)
    with pytest.raises(errors.TrackerBusy, match="deadlock"):
        claim(tracker)


def broken(state):
    raise KeyError("a defect")


def test_defect_in_a_rule_fails_its_own_caller_only():
    writer = writer_on(MemoryStore())
    with pytest.raises(KeyError):
        writer.submit(broken, "test")
    assert writer.submit(lambda state: (None, state.revision), "test") == 1


def two_claims_of_one_owner(state):
    owner, now = uid(), ManualClock().now()
    puts = []
    for _ in range(2):
        decision = claims.instance_claim(state, call(), now, request(owner=owner))
        puts += decision.change.puts
    return Change(cause="test", at=now, puts=tuple(puts))


def test_change_that_violates_an_invariant_is_not_written():
    store = MemoryStore()
    writer = writer_on(store)
    with pytest.raises(errors.InvariantViolated, match="more than one claim"):
        writer.submit(lambda state: (two_claims_of_one_owner(state), None), "test")
    assert isinstance(writer.status.fault, errors.InvariantViolated)
    assert writer.published.current.revision == 1
    assert not stored_state(store).claims


def ends(number):
    """Return decisions that record a new claim as ended, as `StateWriter.submit_all` takes them."""

    def ending(asked):
        def decide(state):
            now = ManualClock().now()
            decision = claims.release_claim(state, asked, now, asked.operation_id)
            return decision.change, asked.operation_id

        return decide

    calls = [call("release_claim") for _ in range(number)]
    return [(ending(asked), "test", asked) for asked in calls]


def is_recorded(store, operation_id):
    return store.operation(NODE.uuid, operation_id) is not None


def test_deadlocks_of_decisions_that_fill_several_batches_end():
    store = FailingStore(MemoryStore())
    writer = writer_on(store)
    store.fail(errors.Deadlock, times=1)
    decisions = ends(BATCH + 6)
    outcomes = writer.submit_all(decisions)
    assert outcomes == [asked.operation_id for *_, asked in decisions]
    assert all(is_recorded(store, each) for each in outcomes)


def test_decisions_without_a_database_are_all_refused():
    writer = writer_on(MemoryStore())
    writer.status.go_stale("the database is down")
    outcomes = writer.submit_all(ends(2))
    assert [type(each) for each in outcomes] == [errors.StoreUnavailable, errors.StoreUnavailable]


def test_repeat_joins_the_call_in_flight(pool):
    tracker, store = gated_tracker()
    build, same = request(), call()
    first = pool.submit(claim, tracker, build, same)
    assert store.entered.acquire(timeout=120)
    again = pool.submit(claim, tracker, build, same)
    other = pool.submit(claim, tracker, build, call(operation_id=same.operation_id, digest="other"))
    with pytest.raises(errors.ClaimConflict):
        other.result(120)
    store.admission.release()
    assert first.result(120) == again.result(120)
    assert store.commits == [1]
