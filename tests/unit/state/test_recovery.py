"""Recovery: commits whose outcome is unknown, stores that are away, newer writers."""

import threading
from collections.abc import Callable

import pytest

from rtagent import claims, errors
from rtagent.model.change import Change
from rtagent.model.stored import Position
from rtagent.testing.failpoints import FailingStore
from rtagent.testing.memory_store import MemoryStore
from tests.support.hosts import ManualClock, call, request, uid
from tests.support.trackers import (
    GatedStore,
    claim,
    release,
    stored_state,
    tracker_on,
    wait_until_queued,
)


@pytest.mark.parametrize("after", [False, True], ids=["lost", "landed"])
def test_commit_of_unknown_outcome_is_answered_as_the_reload_shows(after):
    store = FailingStore(MemoryStore())
    tracker = tracker_on(store)
    epoch = tracker.snapshot().epoch
    store.fail(errors.CommitUnknown, after=after)
    build, same = request(), call()
    if after:
        assert claim(tracker, build, same).uuid == same.operation_id
    else:
        with pytest.raises(errors.StoreUnavailable, match="nothing was changed"):
            claim(tracker, build, same)
    assert not tracker.stale
    assert tracker.snapshot().epoch == epoch + 1
    assert claim(tracker, build, same).uuid == same.operation_id
    assert set(stored_state(store).claims) == {same.operation_id}


def test_stale_tracker_refuses_changes_at_once_and_serves_reads():
    store = FailingStore(MemoryStore())
    tracker = tracker_on(store, timeout=0.05)
    held = claim(tracker)
    store.fail(errors.CommitUnknown, times=None, on=("commit", "reload"))
    store.fail(errors.StoreUnavailable, times=None, on=("commit", "reload"))
    with pytest.raises(errors.StoreUnavailable):
        claim(tracker)
    assert tracker.stale
    before = dict(store.calls)
    with pytest.raises(errors.StoreUnavailable):
        release(tracker, held.uuid)
    assert store.calls["commit"] == before["commit"], "refused without a call of the store"
    assert held.uuid in tracker.snapshot().claims
    assert not tracker.recover()
    store.heal()
    assert tracker.recover() and not tracker.stale
    release(tracker, held.uuid)
    assert not stored_state(store).claims


def test_callers_of_a_commit_of_unknown_outcome_wait_for_the_reload(pool):
    store = FailingStore(MemoryStore())
    tracker = tracker_on(store)
    down = threading.Event()

    def lost():
        store.fail(unreachable, on=("reload",))
        return errors.CommitUnknown()

    def unreachable():
        down.set()
        return errors.StoreUnavailable()

    store.fail(lost, after=True)
    same = call()
    future = pool.submit(claim, tracker, asked=same)
    assert down.wait(120)
    assert not future.done()
    assert tracker.recover()
    assert future.result(120).uuid == same.operation_id


def test_callers_of_one_commit_of_unknown_outcome_cause_one_reload(pool):
    """Each attempt may take the database's whole time-out: one after the other, the last caller
    would wait for all. They are answered though the store stays away, long before their turn would
    have ended.
    """
    failing = FailingStore(MemoryStore())
    tracker_on(failing)
    store = GatedStore(failing)
    tracker = tracker_on(store, timeout=600, settlement=0.1)
    first = pool.submit(claim, tracker)
    assert store.entered.acquire(timeout=120)
    batch = [pool.submit(claim, tracker) for _ in range(5)]
    wait_until_queued(tracker, 5)
    store.admission.release()
    assert first.result(120)
    assert store.entered.acquire(timeout=120)

    def lost():
        failing.fail(errors.StoreUnavailable, times=None, on=("reload",))
        return errors.CommitUnknown()

    failing.fail(lost)
    store.admission.release()

    for future in batch:
        assert isinstance(future.exception(120), errors.StoreUnavailable)
    assert failing.calls["reload"] == 1


def test_older_writer_is_fenced_for_good():
    disk = MemoryStore().disk
    old, new = tracker_on(MemoryStore(disk)), tracker_on(MemoryStore(disk))
    with pytest.raises(errors.StoreUnavailable, match="newer writer"):
        claim(old)
    assert isinstance(old.fault, errors.WriterFenced)
    with pytest.raises(errors.StoreUnavailable, match="newer writer"):
        claim(old)
    assert claim(new)


def test_older_writer_detects_without_a_write_that_it_is_fenced():
    disk = MemoryStore().disk
    old = tracker_on(MemoryStore(disk))
    old.check_position()
    assert old.fault is None
    new = tracker_on(MemoryStore(disk))
    old.check_position()
    new.check_position()
    assert isinstance(old.fault, errors.WriterFenced)
    assert new.fault is None


def test_writer_is_not_fenced_by_its_own_reload():
    store = FailingStore(MemoryStore())
    tracker = tracker_on(store)
    store.fail(errors.StoreUnavailable, times=2, on=("commit", "reload"), after=True)
    with pytest.raises(errors.StoreUnavailable):
        claim(tracker)
    assert not tracker.recover()  # it has raised the epoch, but has no answer
    tracker.check_position()
    assert tracker.fault is None
    assert tracker.recover()
    tracker.check_position()
    assert tracker.fault is None


class InterruptedStore(FailingStore):
    """Runs `meanwhile` once, before it returns the position."""

    meanwhile: list[Callable[[], None]]

    def position(self, node_uuid: str) -> Position | None:
        if self.meanwhile:
            self.meanwhile.pop()()
        return super().position(node_uuid)


def test_writer_is_not_fenced_by_a_reload_while_it_reads_the_position():
    store = InterruptedStore(MemoryStore())
    tracker = tracker_on(store)

    def reload() -> None:
        store.fail(errors.StoreUnavailable)
        with pytest.raises(errors.StoreUnavailable):
            claim(tracker)
        assert tracker.recover()

    store.meanwhile = [reload]
    tracker.check_position()
    assert tracker.fault is None
    assert claim(tracker)


def test_loaded_state_that_violates_an_invariant_stops_granting_only():
    store = FailingStore(MemoryStore())
    tracker = tracker_on(store)
    held = claim(tracker)
    before = tracker.snapshot()
    owner, now = uid(), ManualClock().now()
    two = [claims.instance_claim(before, call(), now, request(owner=owner)) for _ in range(2)]
    change = Change(cause="test", at=now, puts=tuple(each.claims[0] for each in two))
    store.commit(before, before.fold(change), [change])
    store.fail(errors.RevisionConflict)
    with pytest.raises(errors.StoreUnavailable):
        claim(tracker)
    with pytest.raises(errors.NodeNotReady, match="granting has stopped"):
        claim(tracker)
    release(tracker, held.uuid)
    assert held.uuid not in tracker.snapshot().claims
