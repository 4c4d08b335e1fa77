"""The kernel's promises: group commit, fallback, withdrawal, joins, staleness, fencing.

A store whose commit waits for the test tells which decisions share a commit, without a clock.
"""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from msgspec.structs import replace

from rtagent import claims
from rtagent.db.failing import FailingStore
from rtagent.db.memory import Disk, MemoryStore
from rtagent.errors import (
    ChangeRejected,
    ClaimConflict,
    ClaimExpired,
    ClaimNotFound,
    CommitUnknown,
    ComputeResourcesUnavailable,
    Deadlock,
    HypervisorUnavailable,
    InvalidRequest,
    InvariantViolated,
    NodeNotReady,
    RevisionConflict,
    StoreUnavailable,
    TrackerBusy,
    WriterFenced,
)
from rtagent.kernel import NOTES, Kernel, restored
from rtagent.model.change import Change
from rtagent.model.claim import ACTIVE
from rtagent.model.decision import Granted, Refused
from rtagent.model.host import HOST
from rtagent.model.instance import InstanceUpdate
from rtagent.model.node import NodeRecord, Writer
from rtagent.ports import Silence
from rtagent.reconcile.step import Move, Step
from rtagent.tracker import ResourceTracker
from tests.builders import NODE, TOPOLOGY, ManualClock, call, host, request, uid


class GatedStore:
    """Lets each commit pass when the test says so; `commits` counts the changes of each."""

    def __init__(self, store):
        self.store = store
        self.gate, self.entered = threading.Semaphore(0), threading.Semaphore(0)
        self.commits = []

    def __getattr__(self, name):
        return getattr(self.store, name)

    def commit(self, before, after, changes):
        self.commits.append(len(changes))
        self.entered.release()
        assert self.gate.acquire(timeout=10)
        self.store.commit(before, after, changes)


def enroll(store, policy=None, node=NODE):
    """What a starting agent does: one epoch more than the record has."""

    def rule(records):
        known = next(iter(records), None)
        writer = Writer(machine_id="m", boot_id="b", state_path="/s", process=uid())
        epoch, revision = (known.epoch + 1, known.revision) if known else (1, 0)
        return NodeRecord(node=node, epoch=epoch, revision=revision, writer=writer)

    stored = store.enroll(node.uuid, node.hypervisor_hostname, rule)
    return restored(stored, policy or host().policy)


def track(store, clock=None, node=NODE, **kwargs):
    """A tracker on a host that has been observed."""
    tracker = ResourceTracker(store, clock or ManualClock(), enroll(store, node=node), **kwargs)
    if tracker.snapshot().topology is None:
        with tracker.observing() as base:
            tracker.apply([Step(key=HOST, topology=TOPOLOGY)], base)
    return tracker


def gated():
    """A tracker whose every commit waits for the test, and its store."""
    inner = MemoryStore()
    track(inner)
    store = GatedStore(inner)
    return track(store), store


def claim(tracker, asked=None, **kwargs):
    asked = asked or request(**kwargs)
    return tracker.instance_claim(asked, call(operation_id=asked.claim_uuid))


def kept(store):
    """What a restart would find."""
    return restored(store.load(NODE.uuid), host().policy)


@pytest.fixture
def pool():
    with ThreadPoolExecutor(max_workers=32) as executor:
        yield executor


def queued(tracker, number):
    """Wait until that many decisions are queued behind the one that is being committed."""
    limit = threading.Event()
    for _ in range(2000):
        if tracker.waiting == number:
            return
        limit.wait(0.005)
    raise AssertionError("they never queued")


def test_a_grant_is_durable_before_it_is_visible(pool):
    tracker, store = gated()
    future = pool.submit(claim, tracker)
    assert store.entered.acquire(timeout=10)
    assert not tracker.snapshot().claims
    assert not future.done()
    store.gate.release()
    granted = future.result(timeout=10)
    assert tracker.snapshot().claims[granted.uuid] == kept(store).claims[granted.uuid] == granted


def test_all_who_wait_share_one_commit_and_each_gets_its_own_answer(pool):
    tracker, store = gated()
    first = pool.submit(claim, tracker, vcpus=1)
    assert store.entered.acquire(timeout=10)
    others = [pool.submit(claim, tracker, vcpus=v, memory_mb=100 * v) for v in (1, 9, 2)]
    queued(tracker, 3)
    store.gate.release(2)
    assert first.result(10).vcpus == 1
    assert others[0].result(10).memory_mb == 100
    with pytest.raises(ComputeResourcesUnavailable):
        others[1].result(10)
    assert others[2].result(10).memory_mb == 200
    assert store.commits == [1, 2], "the refused one is in no commit and fails no neighbour"
    tracker.snapshot().check()


def test_nobody_is_granted_what_another_in_the_same_batch_took(pool):
    tracker, store = gated()
    first = pool.submit(claim, tracker, vcpus=2)
    assert store.entered.acquire(timeout=10)
    others = [pool.submit(claim, tracker, vcpus=4) for _ in range(3)]
    queued(tracker, 3)
    store.gate.release(2)
    first.result(10)
    refused = [future.exception(10) for future in others]
    assert sorted(type(e).__name__ for e in refused) == [
        "ComputeResourcesUnavailable",
        "ComputeResourcesUnavailable",
        "NoneType",
    ]


def test_a_batch_whose_rows_are_refused_goes_one_by_one_and_only_the_bad_one_fails(pool):
    inner = MemoryStore()
    tracker = track(inner)
    doomed = request()
    # Another process's row, which this tracker's memory knows nothing of:
    ghost = track(MemoryStore(inner.disk))
    ghost.abort_instance_claim(doomed.claim_uuid, call("abort_instance_claim"))
    store = GatedStore(inner)
    tracker = track(store)
    first = pool.submit(claim, tracker)
    assert store.entered.acquire(timeout=10)
    good = [pool.submit(claim, tracker) for _ in range(2)]
    bad = pool.submit(claim, tracker, doomed)
    queued(tracker, 3)
    store.gate.release(10)
    assert first.result(10) and all(f.result(10) for f in good)
    with pytest.raises(ClaimExpired):
        bad.result(10)
    assert store.commits == [1, 3, 1, 1, 1]
    assert set(kept(store).claims) == set(tracker.snapshot().claims)


def test_a_waiter_whose_time_is_up_withdraws_and_is_never_granted(pool):
    inner = MemoryStore()
    track(inner)
    store = GatedStore(inner)
    tracker = track(store, timeout=0.05)
    first = pool.submit(claim, tracker)
    assert store.entered.acquire(timeout=10)
    late = pool.submit(claim, tracker)
    with pytest.raises(TrackerBusy):
        late.result(10)
    store.gate.release(5)
    granted = first.result(10)
    assert set(tracker.snapshot().claims) == {granted.uuid}, (
        "once drained, it waits for the outcome"
    )
    assert claim(tracker).uuid, "and the tracker goes on"


def test_a_repeat_joins_the_call_that_is_under_way(pool):
    tracker, store = gated()
    asked = request()
    first = pool.submit(claim, tracker, asked)
    assert store.entered.acquire(timeout=10)
    again = pool.submit(claim, tracker, asked)
    other = pool.submit(
        tracker.instance_claim, asked, call(operation_id=asked.claim_uuid, digest="other")
    )
    with pytest.raises(ClaimConflict):
        other.result(10)
    store.gate.release()
    assert first.result(10) == again.result(10)
    assert store.commits == [1]


def test_a_later_repeat_returns_the_claim_as_it_is_now():
    tracker = track(MemoryStore())
    asked = request()
    made = claim(tracker, asked)
    tracker.activate_claim(made.uuid, call("activate_claim"))
    again = claim(tracker, asked)
    assert (again.uuid, again.state) == (made.uuid, ACTIVE)
    assert len(tracker.snapshot().claims) == 1


def test_a_repeat_after_the_end_is_told_so_even_on_a_full_host():
    tracker = track(MemoryStore())
    asked = request(8)
    made = claim(tracker, asked)
    tracker.release_claim(made.uuid, call("release_claim"))
    with pytest.raises(ClaimExpired):
        claim(tracker, asked)
    claim(tracker, vcpus=8)
    with pytest.raises(ClaimExpired):
        claim(tracker, asked)


def test_other_content_under_the_same_id_is_a_conflict():
    tracker = track(MemoryStore())
    asked = request()
    claim(tracker, asked)
    with pytest.raises(ClaimConflict, match="was used for another"):
        tracker.instance_claim(asked, call(operation_id=asked.claim_uuid, digest="other"))


@pytest.mark.parametrize("verb", ["abort_instance_claim", "release_claim"])
def test_an_end_is_idempotent_and_may_come_first(verb):
    tracker = track(MemoryStore())
    asked, same = request(), call(verb)
    for operation in (same, same, call(verb)):
        getattr(tracker, verb)(asked.claim_uuid, operation)
    with pytest.raises(ClaimExpired):
        claim(tracker, asked)


def test_a_refusal_is_not_recorded_and_a_repeat_is_decided_afresh():
    tracker = track(MemoryStore())
    big = claim(tracker, vcpus=8)
    asked = request(1)
    with pytest.raises(ComputeResourcesUnavailable) as caught:
        claim(tracker, asked)
    assert [r["resource"] for r in caught.value.kwargs["reasons"]] == ["VCPU"]
    tracker.release_claim(big.uuid, call("release_claim"))
    assert claim(tracker, asked).uuid == asked.claim_uuid


def test_a_repeated_update_has_one_effect():
    tracker = track(MemoryStore())
    made = claim(tracker)
    paused = InstanceUpdate(uuid=made.owner_id, vm_state="paused")
    first = call("update_usage")
    tracker.update_usage(paused, first)
    tracker.update_usage(InstanceUpdate(uuid=made.owner_id, vm_state="active"), call("x"))
    tracker.update_usage(paused, first)
    assert tracker.snapshot().counters["num_vm_active"] == 1


def test_failed_builds_count_once_for_each_operation():
    tracker = track(MemoryStore())
    one = call("build_failed")
    for operation in (one, one, call("build_failed")):
        tracker.build_failed(operation)
    assert tracker.snapshot().failed_builds == 2
    tracker.build_succeeded(call("build_succeeded"))
    assert tracker.snapshot().failed_builds == 0


@pytest.mark.parametrize("after", [False, True], ids=["lost", "landed"])
def test_an_unknown_commit_is_resolved_to_the_truth(after):
    store = FailingStore(MemoryStore())
    tracker = track(store)
    epoch = tracker.snapshot().epoch
    store.fail(CommitUnknown, after=after)
    asked = request()
    if after:
        assert claim(tracker, asked).uuid == asked.claim_uuid
    else:
        with pytest.raises(StoreUnavailable, match="nothing was changed"):
            claim(tracker, asked)
    assert not tracker.stale
    assert tracker.snapshot().epoch == epoch + 1
    assert claim(tracker, asked).uuid == asked.claim_uuid
    assert set(kept(store).claims) == {asked.claim_uuid}


def test_while_it_cannot_reload_everything_is_refused_at_once_and_reads_go_on():
    store = FailingStore(MemoryStore())
    tracker = track(store, timeout=0.05)
    held = claim(tracker)
    store.fail(CommitUnknown, times=None, on=("commit", "reload"))
    store.fail(StoreUnavailable, times=None, on=("commit", "reload"))
    with pytest.raises(StoreUnavailable):
        claim(tracker)
    assert tracker.stale and tracker.wait_stale(0)
    before = dict(store.calls)
    with pytest.raises(StoreUnavailable):
        tracker.release_claim(held.uuid, call("release_claim"))
    assert store.calls["commit"] == before["commit"], "refused without asking the store"
    assert held.uuid in tracker.snapshot().claims
    assert not tracker.recover()
    store.heal()
    assert tracker.recover() and not tracker.stale
    tracker.release_claim(held.uuid, call("release_claim"))
    assert not kept(store).claims


def test_the_callers_of_an_unknown_commit_wait_for_the_reload(pool):
    store = FailingStore(MemoryStore())
    tracker = track(store)
    down = threading.Event()

    def lost():
        store.fail(unreachable, on=("reload",))
        return CommitUnknown()

    def unreachable():
        down.set()
        return StoreUnavailable()

    store.fail(lost, after=True)
    asked = request()
    future = pool.submit(claim, tracker, asked)
    assert down.wait(10)
    assert not future.done()
    assert tracker.recover()
    assert future.result(10).uuid == asked.claim_uuid


def test_the_callers_of_one_unknown_commit_do_not_reload_one_after_the_other(pool):
    """Each attempt may take the database's whole time-out: the last caller would wait for all."""
    failing = FailingStore(MemoryStore())
    track(failing)
    store = GatedStore(failing)
    tracker = track(store, timeout=0.2)
    first = pool.submit(claim, tracker)
    assert store.entered.acquire(timeout=10)
    batch = [pool.submit(claim, tracker) for _ in range(5)]
    queued(tracker, 5)
    store.gate.release()
    assert first.result(10)
    assert store.entered.acquire(timeout=10)

    def lost():
        failing.fail(StoreUnavailable, times=None, on=("reload",))
        return CommitUnknown()

    failing.fail(lost)
    store.gate.release()

    for future in batch:
        assert isinstance(future.exception(10), StoreUnavailable)
    assert failing.calls["reload"] == 1


def test_leases_run_a_full_term_again_after_the_store_was_away():
    clock = ManualClock()
    store = FailingStore(MemoryStore())
    tracker = track(store, clock)
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


def test_a_revision_that_is_not_ours_makes_it_reload():
    store = FailingStore(MemoryStore())
    tracker = track(store)
    store.fail(RevisionConflict)
    with pytest.raises(StoreUnavailable):
        claim(tracker)
    assert not tracker.stale
    claim(tracker)


def test_a_deadlock_queues_again_and_is_granted_once():
    store = FailingStore(MemoryStore())
    tracker = track(store)
    store.fail(Deadlock, times=2)
    made = claim(tracker)
    assert set(kept(store).claims) == {made.uuid}
    assert not tracker.stale


def test_endless_deadlocks_end_in_time():
    clock = ManualClock()
    store = FailingStore(MemoryStore())
    tracker = track(store, clock)

    def deadlock():
        clock.advance(10)
        return Deadlock()

    store.fail(deadlock, times=None)
    with pytest.raises(TrackerBusy, match="deadlock"):
        claim(tracker)


def test_an_older_writer_is_fenced_and_stays_so():
    disk = MemoryStore().disk
    old, new = track(MemoryStore(disk)), track(MemoryStore(disk))
    with pytest.raises(StoreUnavailable, match="newer writer"):
        claim(old)
    assert isinstance(old.fault, WriterFenced)
    with pytest.raises(StoreUnavailable, match="newer writer"):
        claim(old)
    assert claim(new)


def test_an_older_writer_learns_that_it_is_fenced_without_writing():
    disk = MemoryStore().disk
    old = track(MemoryStore(disk))
    old.prove()
    assert old.fault is None
    new = track(MemoryStore(disk))
    old.prove()
    new.prove()
    assert isinstance(old.fault, WriterFenced)
    assert new.fault is None


def test_a_writer_is_not_fenced_by_its_own_reload():
    store = FailingStore(MemoryStore())
    tracker = track(store)
    store.fail(StoreUnavailable, times=2, on=("commit", "reload"), after=True)
    with pytest.raises(StoreUnavailable):
        claim(tracker)
    assert not tracker.recover()  # it has raised the epoch, and does not know
    tracker.prove()
    assert tracker.fault is None
    assert tracker.recover()
    tracker.prove()
    assert tracker.fault is None


def test_whatever_happens_during_an_audit_is_remembered_until_its_end():
    tracker = track(MemoryStore())
    with tracker.observing() as base:
        early = claim(tracker)
        for _ in range(NOTES + 1):
            passing = claim(tracker)
            tracker.release_claim(passing.uuid, call("release_claim"))
        lapsed = Move(claim_uuid=early.uuid, verb="expire", reason="as it was seen before")
        outcome = tracker.apply([Step(key=early.owner_id, moves=(lapsed,))], base)
    assert outcome.skipped == (early.owner_id,)
    assert early.uuid in tracker.snapshot().claims


class Overtaken(FailingStore):
    """Something happens between two looks of who asks for the epoch."""

    meanwhile: Callable[[], None]

    def epoch(self, node_uuid: str) -> int:
        self.meanwhile()
        return super().epoch(node_uuid)


def test_a_writer_is_not_fenced_by_a_reload_while_it_asks():
    store = Overtaken(MemoryStore())
    tracker = track(store)

    def reloaded() -> None:
        store.fail(StoreUnavailable)
        with pytest.raises(StoreUnavailable):
            claim(tracker)
        assert tracker.recover()

    store.meanwhile = reloaded
    tracker.prove()
    assert tracker.fault is None
    assert claim(tracker)


def test_rows_that_the_database_refuses_name_the_call():
    store = FailingStore(MemoryStore())
    tracker = track(store)
    store.fail(lambda: ChangeRejected("value too long"))
    with pytest.raises(InvalidRequest, match="value too long"):
        claim(tracker)
    assert not tracker.snapshot().claims
    assert claim(tracker)


def kernel(store):
    track(store)  # which has the host observed
    return Kernel(store, ManualClock(), enroll(store), Silence(), 10.0, lambda state, changes: None)


def test_a_rule_that_breaks_hurts_its_own_caller_only():
    here = kernel(MemoryStore())

    def broken(state):
        raise KeyError("a defect")

    with pytest.raises(KeyError):
        here.submit(broken, "test")
    assert here.submit(lambda state: (None, state.revision), "test") == 1


def doubled(state):
    """A change that gives one owner two claims."""
    owner = uid()
    puts = []
    for _ in range(2):
        decision = claims.build(state, request(owner=owner), call(), ManualClock().now())
        puts += decision.change.puts
    return Change(cause="test", at=ManualClock().now(), puts=tuple(puts))


def test_a_change_that_breaks_an_invariant_is_not_written():
    store = MemoryStore()
    here = kernel(store)
    with pytest.raises(InvariantViolated, match="more than one claim"):
        here.submit(lambda state: (doubled(state), None), "test")
    assert isinstance(here.fault, InvariantViolated)
    assert here.state.revision == 1
    assert not kept(store).claims


def test_a_state_that_breaks_an_invariant_stops_granting_and_nothing_else():
    store = FailingStore(MemoryStore())
    tracker = track(store)
    held = claim(tracker)
    before = tracker.snapshot()
    change = doubled(before)
    store.commit(before, before.fold(change), [change])
    store.fail(RevisionConflict)
    with pytest.raises(StoreUnavailable):
        claim(tracker)
    with pytest.raises(NodeNotReady, match="granting has stopped"):
        claim(tracker)
    tracker.release_claim(held.uuid, call("release_claim"))
    assert held.uuid not in tracker.snapshot().claims


def test_creating_calls_can_be_held_back_while_others_go_on():
    tracker = track(MemoryStore())
    made = claim(tracker)
    tracker.hold_back(HypervisorUnavailable())
    for create in (lambda: claim(tracker), lambda: tracker.test_claim(request())):
        with pytest.raises(HypervisorUnavailable):
            create()
    tracker.activate_claim(made.uuid, call("activate_claim"))
    tracker.hold_back(None)
    assert claim(tracker)


def test_a_test_gives_the_claims_answer_and_changes_nothing():
    tracker = track(MemoryStore())
    before = tracker.snapshot()
    assert isinstance(tracker.test_claim(request(8)), Granted)
    assert isinstance(tracker.test_claim(request(9)), Refused)
    assert tracker.snapshot() is before


def test_an_operation_id_that_another_node_of_the_database_has_is_a_conflict():
    disk, asked = Disk(), request()
    claim(track(MemoryStore(disk)), asked)
    elsewhere = replace(NODE, uuid=uid(), hypervisor_hostname="hv2.example")
    with pytest.raises(ClaimConflict, match="another node of this database has it"):
        claim(track(MemoryStore(disk), node=elsewhere), asked)


def test_unknown_claims_are_told_from_ended_ones():
    tracker = track(MemoryStore())
    with pytest.raises(ClaimNotFound):
        tracker.activate_claim(uid(), call("activate_claim"))
    ended = claim(tracker)
    tracker.release_claim(ended.uuid, call("release_claim"))
    for verb in ("activate_claim", "renew_claim"):
        with pytest.raises(ClaimExpired):
            getattr(tracker, verb)(ended.uuid, call(verb))


def test_leases_end_by_the_monotonic_clock_alone():
    clock = ManualClock()
    tracker = track(MemoryStore(), clock)
    first, second, third = (claim(tracker) for _ in range(3))
    tracker.activate_claim(third.uuid, call("activate_claim"))
    clock.advance(200)
    tracker.renew_claim(second.uuid, call("renew_claim"))
    clock.advance(100)
    assert tracker.lapsed() == {first.uuid}
    tracker.restart_leases()
    assert not tracker.lapsed()
    clock.advance(300)
    assert tracker.lapsed() == {first.uuid, second.uuid}
    tracker.abort_instance_claim(first.uuid, call("abort_instance_claim"))
    assert tracker.lapsed() == {second.uuid}


def test_news_of_an_instance_do_not_prolong_its_lease():
    clock = ManualClock()
    tracker = track(MemoryStore(), clock)
    held = claim(tracker)
    clock.advance(299)
    news = InstanceUpdate(uuid=held.owner_id, vm_state="building", task_state="networking")
    tracker.update_usage(news, call("update_usage"))
    clock.advance(1)
    assert tracker.lapsed() == {held.uuid}


def test_a_restart_finds_all_that_was_granted_and_leases_run_anew():
    clock, store = ManualClock(), MemoryStore()
    tracker = track(store, clock)
    held = [claim(tracker) for _ in range(3)]
    tracker.release_claim(held[0].uuid, call("release_claim"))
    clock.advance(1000)
    again = track(MemoryStore(store.disk), clock)
    assert again.snapshot().claims == tracker.snapshot().claims
    assert again.snapshot().usage == tracker.snapshot().usage
    assert not again.lapsed()


def test_a_policy_is_a_change_like_any_other():
    tracker = track(MemoryStore())
    claim(tracker, vcpus=6)
    tracker.set_policy(host(reserved_cpus=4).policy)
    state = tracker.snapshot()
    assert state.policy.reserved_cpus == 4 and state.usage.vcpus == 6
    with pytest.raises(ComputeResourcesUnavailable):
        claim(tracker)
    revision = state.revision
    tracker.set_policy(state.policy)
    assert tracker.snapshot().revision == revision, "the same policy is no change"


def test_listeners_are_told_of_each_publication_with_the_state_that_it_made():
    tracker = track(MemoryStore())
    told = []
    tracker.listen(lambda state, changes: told.append((state, [c.cause for c in changes])))
    made = claim(tracker)
    with pytest.raises(ComputeResourcesUnavailable):
        claim(tracker, vcpus=9)
    ((state, causes),) = told
    assert made.uuid in state.claims and causes == ["instance_claim"]


def test_many_threads_never_grant_more_than_there_is(pool):
    tracker = track(MemoryStore())

    def life(number):
        try:
            made = claim(tracker, vcpus=1 + number % 3, memory_mb=100)
        except ComputeResourcesUnavailable:
            return 0
        assert tracker.snapshot().usage.vcpus <= 8
        tracker.activate_claim(made.uuid, call("activate_claim"))
        tracker.release_claim(made.uuid, call("release_claim"))
        return 1

    granted = sum(pool.map(life, range(300)))
    state = tracker.snapshot()
    state.check()
    assert granted and not state.claims and state.usage == host().usage
