"""Restoration: a restored store is noticed and reported, and refuses claims until accepted."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from msgspec.structs import replace

from rtagent import errors
from rtagent.claims import activate_claim
from rtagent.model.stored import Position
from rtagent.ports import Mark
from rtagent.reconcile.steps import AuditStep, ClaimTransition
from rtagent.state.restoration import MemoryWitness
from rtagent.testing.failpoints import FailingStore
from rtagent.testing.memory_store import Disk, MemoryStore
from rtagent.tracker import ResourceTracker
from tests.support.hosts import NOON, ManualClock, call
from tests.support.stores import MemoryDatabase
from tests.support.trackers import (
    GatedStore,
    Reports,
    claim,
    enroll,
    release,
    stored_state,
    tracker_on,
)


@pytest.fixture
def copies():
    return MemoryDatabase()


@pytest.fixture
def reports():
    return Reports()


@pytest.fixture
def tracker(copies, reports):
    return tracker_on(copies.store(), reporter=reports)


def notice(tracker: ResourceTracker) -> None:
    tracker.check_position()
    assert tracker.stale
    assert tracker.recover()


def test_what_was_lost_came_back_or_changed_is_listed(copies, tracker, reports):
    kept, activated, ended = (claim(tracker) for _ in range(3))
    copy = copies.take()
    tracker.change(activate_claim, call("activate_claim"), activated.uuid)
    release(tracker, ended.uuid)
    lost = claim(tracker)
    acknowledged = tracker.snapshot()

    copies.put(copy)
    notice(tracker)

    restore = tracker.restored
    assert restore.acknowledged == acknowledged.position
    assert restore.found == replace(acknowledged.position, revision=acknowledged.revision - 3)
    assert restore.compared
    assert {
        each.claim_uuid: (each.owner_id, each.acknowledged, each.stored)
        for each in restore.differences
    } == {
        activated.uuid: (activated.owner_id, "active", "building"),
        ended.uuid: (ended.owner_id, None, "building"),
        lost.uuid: (lost.owner_id, "building", None),
    }
    status, output = reports.parts["store"]
    assert status == "fail"
    assert f"revision {acknowledged.revision} " in output
    assert f"revision {acknowledged.revision - 3} " in output
    assert "3 claims differ" in output and "rtagent node accept-restore" in output
    logged = [sentence for level, sentence in reports.logged if level == "error"]
    assert any(f"{lost.uuid} of {lost.owner_id}: was building, is missing" in s for s in logged)
    assert kept.uuid in tracker.snapshot().claims


def test_audit_that_began_before_applies_nothing_to_the_restored_state(copies, tracker):
    held = claim(tracker)
    copy = copies.take()
    for _ in range(3):
        claim(tracker)
    with tracker.observing() as base:
        copies.put(copy)
        notice(tracker)
        lapsed = ClaimTransition(claim_uuid=held.uuid, verb="expire", reason="seen earlier")
        outcome = tracker.apply([AuditStep(key=held.owner_id, transitions=(lapsed,))], base)
    assert outcome.skipped == (held.owner_id,)
    assert held.uuid in tracker.snapshot().claims


def test_accepted_restore_ends_and_is_not_accepted_for_another(copies, tracker, reports):
    with pytest.raises(errors.RestoreNotFound, match="pending: none"):
        tracker.accept_restore(1, call("accept_restore"))
    copy = copies.take()
    claim(tracker)
    copies.put(copy)
    notice(tracker)
    revision = tracker.restored.revision
    with pytest.raises(errors.RestoreNotFound, match=f"pending: revision {revision}"):
        tracker.accept_restore(revision - 1, call("accept_restore"))
    for _ in range(2):
        tracker.accept_restore(revision, call("accept_restore"))
    assert tracker.restored is None
    assert reports.parts["store"] == ("pass", "")
    assert claim(tracker)


def test_second_restore_before_acceptance_adds_to_the_first(copies, tracker):
    first = claim(tracker)
    early = copies.take()
    second = claim(tracker)
    late = copies.take()
    third = claim(tracker)
    copies.put(late)
    notice(tracker)
    seen = tracker.restored
    copies.put(early)
    notice(tracker)
    assert [each.claim_uuid for each in tracker.restored.differences] == [third.uuid, second.uuid]
    assert tracker.restored.revision > seen.revision
    assert set(tracker.snapshot().claims) == {first.uuid}
    with pytest.raises(errors.RestoreNotFound):
        tracker.accept_restore(seen.revision, call("accept_restore"))


def test_rows_of_another_time_at_the_same_revision_are_noticed_at_the_reload(copies, reports):
    store = FailingStore(copies.store())
    tracker = tracker_on(store, reporter=reports)
    activated, lost = claim(tracker), claim(tracker)
    older = copies.take()
    tracker.change(activate_claim, call("activate_claim"), activated.uuid)
    ((row, parts),) = copies.take().values()
    ((_, old),) = older.values()
    claims = {uuid: each for uuid, each in old["claims"].items() if uuid != lost.uuid}
    copies.put({tracker.snapshot().node.uuid: (row, {**parts, "claims": claims})})
    store.fail(errors.StoreUnavailable)
    with pytest.raises(errors.StoreUnavailable):
        claim(tracker)
    assert tracker.recover()
    states = {d.claim_uuid: d.stored for d in tracker.restored.differences}
    assert states == {activated.uuid: "building", lost.uuid: None}


@pytest.mark.parametrize("after", [False, True], ids=["not done", "done"])
@pytest.mark.parametrize(
    ("method", "error"),
    [
        ("position", errors.StoreUnavailable),
        ("reload", errors.StoreUnavailable),
        ("commit", errors.StoreUnavailable),
        ("commit", errors.CommitUnknown),
        ("commit", errors.Deadlock),
        ("commit", errors.RevisionConflict),
    ],
)
def test_restored_store_that_fails_meanwhile_is_continued_later(copies, method, error, after):
    store = FailingStore(copies.store())
    tracker = tracker_on(store)
    held = claim(tracker)
    copy = copies.take()
    lost = claim(tracker)
    acknowledged = tracker.snapshot().revision
    copies.put(copy)
    tracker.check_position()
    store.fail(error, on=(method,), after=after)
    assert not tracker.recover()
    assert tracker.stale
    assert tracker.recover()
    assert [d.claim_uuid for d in tracker.restored.differences] == [lost.uuid]
    assert tracker.snapshot().revision > acknowledged
    assert set(stored_state(store).claims) == {held.uuid}
    with pytest.raises(errors.StoreRestored):
        claim(tracker)


def test_mark_that_is_older_than_the_store_is_no_alarm(copies):
    """A process may be killed between a commit and its mark; a power failure may lose marks."""
    store, witness = copies.store(), MemoryWitness()
    tracker = tracker_on(store, witness=witness)
    older = witness.mark
    assert older is not None
    for _ in range(3):
        claim(tracker)
    witness.record(older)
    started = ResourceTracker(store, ManualClock(), enroll(store), witness=witness)
    assert not started.stale and started.restored is None
    assert len(started.snapshot().claims) == 3
    assert witness.mark.position == started.snapshot().position


def test_list_is_kept_if_the_process_is_killed_after_it_has_noticed_a_restore(copies):
    store, witness = FailingStore(copies.store()), MemoryWitness()
    tracker = tracker_on(store, witness=witness)
    copy = copies.take()
    lost = claim(tracker)
    copies.put(copy)
    tracker.check_position()
    store.fail(errors.StoreUnavailable)
    assert not tracker.recover()

    started = ResourceTracker(store, ManualClock(), enroll(store), witness=witness)
    assert started.recover()
    assert [d.claim_uuid for d in started.restored.differences] == [lost.uuid]
    assert started.restored.compared


def test_older_epoch_alone_is_noticed():
    """Another agent may have continued an older copy, beyond the revision that was acknowledged."""
    disk, witness = Disk(), MemoryWitness()
    store = MemoryStore(disk)
    tracker = tracker_on(store, witness=witness)
    revision = tracker.snapshot().revision
    witness.record(Mark(position=Position(epoch=9, revision=revision), at=NOON))
    started = ResourceTracker(store, ManualClock(), enroll(store), witness=witness)
    assert started.stale and started.recover()
    assert started.restored.found.epoch == 1
    assert not started.restored.compared
    assert started.snapshot().epoch > 9
    started.check_position()
    assert started.fault is None and not started.stale
    tracker.check_position()
    assert isinstance(tracker.fault, errors.WriterFenced), "the former writer is fenced, too"


def test_database_that_was_begun_anew_is_accepted_and_grants(copies, reports):
    """As after ``rtagentd --rebuild``."""
    witness = MemoryWitness()
    claim(tracker_on(copies.store(), witness=witness))
    acknowledged = witness.mark.position
    store = MemoryStore()
    started = ResourceTracker(store, ManualClock(), enroll(store), reports, witness=witness)
    assert started.recover()
    assert not started.snapshot().position.behind(acknowledged)
    assert reports.parts["store"][0] == "fail"
    with pytest.raises(errors.StoreRestored, match="rtagent node accept-restore"):
        claim(started)
    started.accept_restore(started.restored.revision, call("accept_restore"))
    again = tracker_on(store, witness=witness)
    assert not again.stale and again.restored is None
    assert claim(again)


def test_claim_that_was_queued_when_it_was_noticed_is_refused(pool: ThreadPoolExecutor):
    copies = MemoryDatabase()
    tracker_on(copies.store())  # observes the host
    store = GatedStore(copies.store())
    tracker = tracker_on(store)
    store.admission.release()
    claim(tracker)
    copy = copies.take()
    store.admission.release()
    claim(tracker)
    store.entered.acquire(), store.entered.acquire()
    first = pool.submit(claim, tracker)
    assert store.entered.acquire(timeout=120)
    queued = pool.submit(claim, tracker)
    copies.put(copy)
    store.admission.release(3)  # the commit, that of the restore, and one too many
    with pytest.raises(errors.StoreUnavailable):
        first.result(120)
    with pytest.raises((errors.StoreUnavailable, errors.StoreRestored)):
        queued.result(120)
    assert len(tracker.snapshot().claims) == 1
