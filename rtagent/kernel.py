"""Kernel: the only lock around a node's state, and the only way to change it.

A caller queues a pure decision. One caller at a time leads: it drains what is queued, decides it
all on the current state, has the store commit the accepted changes in ONE transaction, publishes
the new state with one reference assignment, hands the lead on and only then answers. So a commit
is shared by all who wait (group commit), and each has its own answer.

- Durable before visible: publishing follows the commit.
- The only I/O of a leader is the commit. It is bounded by the store's own time-outs and never
  retried here; a deadlock's victims queue again.
- A commit whose outcome is unknown, or that did not reach the database, makes the kernel *stale*:
  everything is refused at once with `StoreUnavailable` until `recover` has reloaded; reads go on
  from the last published state.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from immutables import Map

from rtagent.errors import (
    ChangeRejected,
    ClaimConflict,
    CommitUnknown,
    Deadlock,
    InvariantViolated,
    RevisionConflict,
    RtAgentError,
    StoreUnavailable,
    TrackerBusy,
    WriterFenced,
)
from rtagent.model.change import Call, Change
from rtagent.model.host import HostState, restore
from rtagent.model.pci_devices import PciDevices
from rtagent.model.policy import Policy
from rtagent.ports import Clock, Reporter, Store, Stored

#: Decides on a state: the change to commit, or None, and the answer.
Decide = Callable[[HostState], tuple[Change | None, Any]]
Listener = Callable[[HostState, Sequence[Change]], None]

#: How many queued decisions one commit carries at most.
BATCH = 64
#: How many notes of what was touched are kept before those that no audit needs are dropped.
NOTES = 1024


class _Pending:
    """A queued decision. ``turn`` is set when it is done, or when its caller has to lead."""

    __slots__ = (
        "answer",
        "call",
        "change",
        "decide",
        "done",
        "error",
        "leads",
        "purpose",
        "queued_at",
        "turn",
    )

    def __init__(self, decide: Decide, purpose: str, call: Call | None, now: float) -> None:
        self.decide, self.purpose, self.call, self.queued_at = decide, purpose, call, now
        self.turn = threading.Event()
        self.leads = self.done = False
        self.end()

    def end(
        self, change: Change | None = None, answer: Any = None, error: Exception | None = None
    ) -> None:
        """How it ended, so far: a batch that fails is decided again."""
        self.change, self.answer, self.error = change, answer, error


class Kernel:
    """Thread-safe. `noted` is called with each publication, before anybody is answered."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        state: HostState,
        reporter: Reporter,
        timeout: float,
        noted: Callable[[HostState, Sequence[Change]], None],
    ) -> None:
        """:param timeout: seconds that a decision may wait for its turn."""
        self._store, self._clock, self._reporter = store, clock, reporter
        self._timeout, self._noted = timeout, noted
        self._listeners: list[Listener] = []
        # Guarded by _mutex, which is held for a few instructions at a time:
        self._mutex = threading.Lock()
        self._finished = threading.Condition(self._mutex)
        self._health = threading.Condition(self._mutex)
        self._queue: deque[_Pending] = deque()
        self._in_flight: dict[str, _Pending] = {}
        self._bases: list[int] = []
        self._leading = False
        self._stale = ""
        self._fault: RtAgentError | None = None
        # Assigned by the leader, or by `recover` while stale; read without a lock:
        self._state = state
        self._recovery = threading.Lock()
        self._check_loaded(state)

    @property
    def state(self) -> HostState:
        """The last published state."""
        return self._state

    @property
    def stale(self) -> str:
        """Why the state may be behind the database's, or nothing when it is not."""
        return self._stale

    @property
    def down(self) -> str:
        """Why every decision is refused, or nothing when it is not."""
        return self._fault.message if isinstance(self._fault, WriterFenced) else self._stale

    @property
    def fault(self) -> RtAgentError | None:
        """`WriterFenced`: the process must stop. `InvariantViolated`: nothing more is granted."""
        return self._fault

    @property
    def waiting(self) -> int:
        """How many decisions are queued behind the one that is being committed."""
        return len(self._queue)

    def listen(self, listener: Listener) -> None:
        """Have `listener` told of every publication, off the lock; it must return at once."""
        self._listeners.append(listener)

    @contextmanager
    def observing(self) -> Iterator[HostState]:
        """An audit's base: while it is in use, what is touched is remembered."""
        with self._mutex:
            base = self._state
            self._bases.append(base.revision)
        try:
            yield base
        finally:
            with self._mutex:
                self._bases.remove(base.revision)

    def wait_stale(self, timeout: float) -> bool:
        """Whether the tracker is stale, after waiting at most that many seconds for it."""
        with self._mutex:
            return self._health.wait_for(lambda: bool(self._stale), timeout)

    def recover(self) -> bool:
        """When stale: reload, once. The caller repeats it, with back-off, until it is True."""
        with self._recovery:
            if not self._stale:
                return True
            if isinstance(self._fault, WriterFenced):
                return False
            try:
                stored = self._store.reload(self._state.node.uuid, self._state.epoch)
            except StoreUnavailable as error:
                self._reporter.health("store", "fail", error.message)
                return False
            except WriterFenced as error:
                self._break(error)
                return False
            self._resume(stored)
        return True

    def prove(self) -> None:
        """See whether the node is still ours; where it is not, `fault` tells.

        :raises StoreUnavailable:
        """
        ours = self._state.epoch
        theirs = self._store.epoch(self._state.node.uuid)
        # While stale a reload may have raised it, and stale ends after the state has the new one.
        if theirs != ours and not self._stale and self._state.epoch == ours:
            fenced = WriterFenced(node_uuid=self._state.node.uuid, ours=ours, theirs=theirs)
            self._break(fenced)
            self._report_fault(fenced)

    def _resume(self, stored: Stored) -> None:
        state = restored(stored, self._state.policy)
        self._check_loaded(state)
        before, self._state = self._state, state
        self._noted(before, ())
        with self._mutex:
            self._stale = ""
            self._health.notify_all()
        self._reporter.health("store", "pass")
        self._reporter.said("info", f"the store is back: {state!r}")
        self._tell(state, ())

    def _check_loaded(self, state: HostState) -> None:
        """What a store held must keep every invariant, or nothing is granted from it."""
        try:
            state.check()
        except InvariantViolated as error:
            self._break(error)
            self._reporter.health("tracker", "fail", error.message)

    def submit(self, decide: Decide, purpose: str, call: Call | None = None) -> Any:
        """Queue a decision and return its answer, or raise what it ended with."""
        deadline = self._clock.monotonic() + self._timeout
        while True:
            pending, joined = self._enqueue(decide, purpose, call)
            if joined:
                self._join(pending)
            else:
                self._take_turn(pending, deadline)
            if isinstance(pending.error, CommitUnknown):
                if pending.leads and not joined:
                    self.recover()  # once for all who shared the commit
                self._learn_outcome(pending.error, call, deadline)
            if isinstance(pending.error, Deadlock):
                if self._clock.monotonic() < deadline:
                    continue
                raise TrackerBusy(f"{purpose}: the database ended every attempt in a deadlock")
            if pending.error is not None:
                raise pending.error
            return pending.answer

    def _enqueue(self, decide: Decide, purpose: str, call: Call | None) -> tuple[_Pending, bool]:
        """A new place in the queue, or (joined) that of the same operation, which is under way."""
        pending = _Pending(decide, purpose, call, self._clock.monotonic())
        with self._mutex:
            if self.down:
                raise StoreUnavailable(self.down)
            if call is not None:
                twin = self._in_flight.setdefault(call.operation_id, pending)
                if twin is not pending:
                    _same_content(call, twin.call)
                    return twin, True
            self._queue.append(pending)
            if not self._leading:
                self._leading = pending.leads = True
                pending.turn.set()
        return pending, False

    def _take_turn(self, pending: _Pending, deadline: float) -> None:
        """Until it is done: by another leader, by leading, or by withdrawing in time."""
        if not pending.turn.wait(max(0.0, deadline - self._clock.monotonic())):
            if self._withdraw(pending):
                return
            pending.turn.wait()
        if pending.leads:
            self._lead()

    def _join(self, twin: _Pending) -> None:
        """Its own caller leads it, or withdraws: that is bounded, and so is this."""
        with self._mutex:
            self._finished.wait_for(lambda: twin.done)

    def _withdraw(self, pending: _Pending) -> bool:
        """Take a decision back while it is queued; once drained it waits for its outcome."""
        with self._mutex:
            if pending.leads or pending not in self._queue:
                return False
            self._queue.remove(pending)
            pending.end(error=TrackerBusy(f"{pending.purpose} was withdrawn before its turn came"))
            self._finish((pending,))
            return True

    def _lead(self) -> None:
        """Serve one batch, which begins with the leader's own decision, and hand the lead on."""
        began = self._clock.monotonic()
        with self._mutex:
            batch = [self._queue.popleft() for _ in range(min(BATCH, len(self._queue)))]
        before = self._state
        try:
            self._transact(batch)
        except BaseException as error:
            self._go_stale(f"a defect interrupted a commit: {error!r}")
            for pending in batch:
                pending.end(error=StoreUnavailable(self._stale))
            raise
        finally:
            ended = self._clock.monotonic()
            with self._mutex:
                self._leading = bool(self._queue)
                if self._queue:
                    self._queue[0].leads = True
                    self._queue[0].turn.set()
                self._finish(batch)
        self._report(batch, began, ended)
        changes = tuple(p.change for p in batch if p.change is not None and p.error is None)
        if self._state is not before and changes:
            self._tell(self._state, changes)

    def _finish(self, batch: Sequence[_Pending]) -> None:
        """Answer; the mutex is held."""
        for pending in batch:
            pending.done = True
            if pending.call is not None:
                self._in_flight.pop(pending.call.operation_id, None)
            pending.turn.set()
        self._finished.notify_all()

    def _transact(self, batch: Sequence[_Pending]) -> None:
        """Decide a batch, commit it, publish it. A batch whose rows are refused goes one by one."""
        if self._stale:
            _fail(batch, StoreUnavailable(self._stale))
            return
        before = self._pruned()
        after = before
        for pending in batch:
            after = self._decide(pending, after)
        changes = [p.change for p in batch if p.change is not None and p.error is None]
        if not changes:
            return
        try:
            self._store.commit(before, after, changes)
        except ChangeRejected as error:
            if len(batch) == 1:
                _fail(batch, error)
                return
            for pending in batch:
                self._transact((pending,))
        except Deadlock as error:
            _fail(batch, error)
        except (CommitUnknown, RevisionConflict) as error:
            self._go_stale(error.message)
            _fail(batch, CommitUnknown(error.message))
        except StoreUnavailable as error:
            self._go_stale(error.message)
            _fail(batch, error)
        except WriterFenced as error:
            self._break(error)
            _fail(batch, StoreUnavailable(error.message))
        else:
            self._state = after
            self._noted(before, changes)

    def _decide(self, pending: _Pending, state: HostState) -> HostState:
        try:
            change, answer = pending.decide(state)
            after = state
            if change is not None:
                after = state.fold(change)
                after.check_owners(change.owners)
            pending.end(change, answer)
        except InvariantViolated as error:
            self._break(error)
            pending.end(error=error)
        except Exception as error:  # carried to the caller whose decision it is
            pending.end(error=error)
        else:
            return after
        return state

    def _pruned(self) -> HostState:
        state = self._state
        if len(state.touched) <= NOTES:
            return state
        with self._mutex:
            oldest = min(self._bases, default=state.revision)
        return state.pruned(oldest)

    def _learn_outcome(self, error: CommitUnknown, call: Call | None, deadline: float) -> None:
        """Wait until a reload has settled whether the commit came through.

        :raises CommitUnknown: it is settled: the operation's record, or its absence, tells.
        :raises StoreUnavailable: it is not settled in time, or there is no record to ask for.
        """
        with self._mutex:
            left = max(0.0, deadline - self._clock.monotonic())
            settled = self._health.wait_for(lambda: not self.down, left)
        if not settled or call is None:
            raise StoreUnavailable(
                "the connection was lost during the commit: repeat with the same operation id"
            )
        raise error

    def _go_stale(self, why: str) -> None:
        with self._mutex:
            self._stale = why or "the database does not answer"
            self._health.notify_all()

    def _break(self, error: RtAgentError) -> None:
        """A fault that stays until the process ends."""
        with self._mutex:
            if not isinstance(self._fault, WriterFenced):
                self._fault = error
            self._health.notify_all()

    def _report(self, batch: Sequence[_Pending], began: float, ended: float) -> None:
        for pending in batch:
            self._reporter.timed("lock_wait", pending.purpose, began - pending.queued_at)
        self._reporter.timed("lock_hold", batch[0].purpose, ended - began)
        if self._stale:
            self._reporter.health("store", "fail", self._stale)
        if self._fault is not None:
            self._report_fault(self._fault)

    def _report_fault(self, fault: RtAgentError) -> None:
        self._reporter.health("tracker", "fail", fault.message)
        self._reporter.said("error", fault.message)

    def _tell(self, state: HostState, changes: Sequence[Change]) -> None:
        for listener in self._listeners:
            listener(state, changes)


def restored(stored: Stored, policy: Policy) -> HostState:
    """The state that a store's content makes under a policy."""
    blank = HostState(
        node=stored.node,
        policy=policy,
        epoch=stored.epoch,
        topology=stored.topology,
        migrations=Map({each.uuid: each for each in stored.migrations}),
        devices=PciDevices({device.address: device for device in stored.devices}),
        specific=stored.specific,
        failed_builds=stored.failed_builds,
        disk_available_least=stored.disk_available_least,
    )
    return restore(blank, stored.claims, stored.holdings, stored.revision)


def _fail(batch: Sequence[_Pending], error: Exception) -> None:
    for pending in batch:
        pending.end(error=error)


def _same_content(call: Call, other: Call | None) -> None:
    if other is not None and other.digest != call.digest:
        raise ClaimConflict(
            f"operation id {call.operation_id} is under way for another {other.method}",
            operation_id=call.operation_id,
        )
