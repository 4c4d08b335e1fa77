"""StateWriter: the only way to change a node's state.

A caller queues a pure decision. One caller at a time leads: it decides everything that is queued on
the current state, has the store commit the accepted changes in ONE transaction, publishes the new
state with one reference assignment, hands the lead on and only then answers. So everybody who waits
shares a commit (group commit), and each has an answer of its own.

- Durable before visible: publication follows the commit.
- The only I/O of a leader is the commit. It is bounded by the store's own time-outs and never
  retried here; the victims of a deadlock queue again.
- What is acknowledged is remembered outside of the store (`Witness`), between commit and answer, so
  that a store that went back in time is noticed.
- A commit whose outcome is unknown, or that did not reach the database, makes the state *stale*:
  every decision is refused at once with `StoreUnavailable` until `StateRecovery.recover` has
  reloaded the state. Readers keep the last published state.

UnwrittenAllocations: the consumers whose allocations have to be written to Placement.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from rtagent import errors
from rtagent.allocation.kept_views import keep_views
from rtagent.bus import Bus, StatePublished
from rtagent.model.change import Call, Change
from rtagent.model.node_state import NodeState
from rtagent.model.notifications import with_notifications
from rtagent.model.policy import ManageAllocations
from rtagent.ports import Clock, Reporter, Store, Witness
from rtagent.state.published import Leases, PublishedState, WriterStatus
from rtagent.state.queue import Decide, DecisionQueue, Pending
from rtagent.state.recovery import StateRecovery
from rtagent.state.restoration import Restoration

#: How many queued decisions one commit carries at most.
BATCH = 64


class StateWriter:
    """Thread-safe.

    :ivar published: the last committed state. :ivar status: whether decisions are refused.
    :ivar leases: of the claims in that state. :ivar restoration: notices a restored store.
    :ivar bus: gets what happens.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        state: NodeState,
        reporter: Reporter,
        witness: Witness,
        timeout: float,
        settlement: float,
        bus: Bus,
    ) -> None:
        """:param timeout: seconds that a decision may wait for its turn.
        :param settlement: seconds that it may wait for the reload that shows whether its commit was
            done, if that is unknown.
        """
        self._store, self._clock, self._reporter = store, clock, reporter.named(__name__)
        self.bus = bus
        self._timeout, self._settlement = timeout, settlement
        self._queue = DecisionQueue()
        self.published = PublishedState(state)
        self.status = WriterStatus(bus)
        self.leases = Leases(clock, state)
        self.restoration = Restoration(witness, clock, reporter)
        self.recovery = StateRecovery(
            store, self.published, self.status, self.leases, self.restoration, bus, clock, reporter
        )
        self.recovery.begin(state)

    @property
    def waiting(self) -> int:
        """How many decisions are queued behind the batch that is being committed."""
        return len(self._queue)

    def submit(self, decide: Decide, purpose: str, call: Call | None = None) -> Any:
        """Queue a decision and wait for its answer.

        :param purpose: labels metrics. :param call: a repeat joins the call in flight.
        :raises StoreUnavailable: nothing was changed, or the outcome is unknown.
        :raises TrackerBusy: its turn did not come in time, or every attempt was a deadlock.
        :raises CommitUnknown: the state has been reloaded since, and the call's operation record
            shows whether it was committed.
        """
        (outcome,) = self._outcomes([Pending(decide, purpose, call, self._clock.monotonic())])
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def submit_all(self, decisions: Sequence[tuple[Decide, str, Call | None]]) -> list[Any]:
        """Queue decisions together, so that they share commits, and wait for all answers.

        :param decisions: each as the arguments of `submit`.
        :return: for each its answer, or the error that `submit` would raise.
        """
        now = self._clock.monotonic()
        return self._outcomes([Pending(*decision, now) for decision in decisions])

    def _outcomes(self, decisions: Sequence[Pending]) -> list[Any]:
        deadline = self._clock.monotonic() + self._timeout
        outcomes: list[Any] = [None] * len(decisions)
        waiting = dict(enumerate(decisions))
        while waiting:
            served = [self._add(own) for own in waiting.values()]
            # In the order of the queue, and before any outcome is waited for: each of them may have
            # to lead, and whatever is behind it waits for that.
            for own, pending in zip(waiting.values(), served, strict=True):
                self._await(own, pending, deadline)
            for (place, own), pending in zip(waiting.items(), served, strict=True):
                outcomes[place] = self._outcome(own, pending, deadline)
            now = self._clock.monotonic()
            victims = (place for place in waiting if isinstance(outcomes[place], errors.Deadlock))
            waiting = {place: waiting[place].again(now) for place in victims}
        return outcomes

    def _add(self, own: Pending) -> Pending:
        """Queue a decision. Return the one whose result it has: itself, or the same call in
        flight."""
        try:
            if down := self.status.down:
                raise errors.StoreUnavailable(down)
            return self._queue.add(own)
        except (errors.StoreUnavailable, errors.ClaimConflict) as error:
            own.refuse(error)
            return own

    def _await(self, own: Pending, pending: Pending, deadline: float) -> None:
        """Wait until the decision is done."""
        if pending is not own:
            self._queue.join(pending)
            return
        try:
            self._take_turn(own, deadline)
        except Exception as error:  # a defect; the other decisions of the caller have their turn
            own.fail(error)

    def _outcome(self, own: Pending, pending: Pending, deadline: float) -> Any:
        """Return the answer, or the error; a `Deadlock` if another attempt may succeed."""
        error = pending.error
        if isinstance(error, errors.CommitUnknown):
            if own.leads:
                self.recovery.recover()  # once for everybody who shared the commit
            return self._settled(error, own.call, deadline)
        if isinstance(error, errors.Deadlock) and self._clock.monotonic() >= deadline:
            return errors.TrackerBusy(
                f"{own.purpose}: the database ended every attempt in a deadlock"
            )
        return pending.answer if error is None else error

    def _take_turn(self, pending: Pending, deadline: float) -> None:
        """Wait until the decision is done: by another leader, by leading, or by withdrawing it."""
        if not pending.turn.wait(max(0.0, deadline - self._clock.monotonic())):
            if self._queue.withdraw(pending):
                return
            pending.turn.wait()
        if pending.leads:
            self._lead(pending)

    def _settled(
        self, error: errors.CommitUnknown, call: Call | None, deadline: float
    ) -> errors.CommitUnknown | errors.StoreUnavailable:
        """Wait until a reload has settled whether the commit was done.

        :return: the error, if it is settled: the operation's record, or its absence, shows it.
            `StoreUnavailable`: it is not settled in time, or the caller has no operation id.
        """
        left = max(0.0, deadline - self._clock.monotonic())
        settled = self.status.wait_up(min(left, self._settlement))
        if settled and call is not None:
            return error
        return errors.StoreUnavailable(
            "the connection was lost during the commit: repeat with the same operation id"
        )

    def _lead(self, own: Pending) -> None:
        """Serve one batch, which begins with the caller's own decision, and hand the lead on."""
        began = self._clock.monotonic()
        batch = self._queue.next_batch(own, BATCH)
        before = self.published.current
        try:
            if not self._refuse(batch):
                with self.published.replacing:
                    self._transact(batch)
        except BaseException as error:
            self.status.go_stale(f"a defect interrupted a commit: {error!r}")
            _fail(batch, errors.StoreUnavailable(self.status.stale))
            raise
        finally:
            ended = self._clock.monotonic()
            self._queue.finish(batch)
        self._report(batch, began, ended)
        changes = tuple(p.change for p in batch if p.change is not None and p.error is None)
        if self.published.current is before or not changes:
            return
        told = tuple(change for change in changes if not change.announces)
        self.bus.publish(StatePublished(state=self.published.current, changes=told))

    def _transact(self, batch: Sequence[Pending]) -> None:
        """Decide a batch, commit it, publish it. A batch that the database rejects is committed
        decision by decision."""
        if self._refuse(batch):
            return
        before = after = self.published.pruned()
        for pending in batch:
            after = self._decide(pending, after)
        changes = [p.change for p in batch if p.change is not None and p.error is None]
        if not changes:
            return
        try:
            self._store.commit(before, after, changes)
        except errors.ChangeRejected as error:
            if len(batch) == 1:
                _fail(batch, error)
                return
            for pending in batch:
                self._transact((pending,))
        except errors.Deadlock as error:
            _fail(batch, error)
        except (errors.CommitUnknown, errors.RevisionConflict) as error:
            self.status.go_stale(error.message)
            _fail(batch, errors.CommitUnknown(error.message))
        except errors.StoreUnavailable as error:
            self.status.go_stale(error.message)
            _fail(batch, error)
        except errors.WriterFenced as error:
            self.status.fail(error)
            _fail(batch, errors.StoreUnavailable(error.message))
        else:
            self.restoration.record(after.position, changes[-1].at)
            self.published.current = after
            self.leases.update(before, changes)

    def _refuse(self, batch: Sequence[Pending]) -> bool:
        """Whether the state is stale; then the batch is refused."""
        if why := self.status.stale:
            _fail(batch, errors.StoreUnavailable(why))
        return bool(why)

    def _decide(self, pending: Pending, state: NodeState) -> NodeState:
        """The state after a decision; the same state if it changes nothing, or fails."""
        try:
            change, answer = pending.decide(state)
            after = state
            if change is not None:
                change = with_notifications(state, change)
                after = state.fold(change)
                after.check_owners(change.owners)
                keep_views(state, after, change)
            pending.change, pending.answer, pending.error = change, answer, None
        except errors.InvariantViolated as error:
            self.status.fail(error)
            pending.fail(error)
        except Exception as error:  # carried to the caller whose decision it is
            pending.fail(error)
        else:
            return after
        return state

    def _report(self, batch: Sequence[Pending], began: float, ended: float) -> None:
        for pending in batch:
            self._reporter.timed("lock_wait", pending.purpose, began - pending.queued_at)
        self._reporter.timed("lock_hold", batch[0].purpose, ended - began)
        if self.status.stale:
            self._reporter.health("store", "fail", self.status.stale)
        self.recovery.report_fault()


def _fail(batch: Sequence[Pending], error: Exception) -> None:
    for pending in batch:
        pending.fail(error)


class UnwrittenAllocations:
    """The outbox of allocations. Each method may raise `StoreUnavailable` and `TrackerBusy`."""

    def __init__(self, writer: StateWriter, clock: Clock) -> None:
        self._writer, self._clock = writer, clock

    def add(self, consumers: Collection[str]) -> None:
        """Put these consumers into the outbox, so that their allocations are written again, if the
        agent manages allocations."""

        def decide(state: NodeState) -> tuple[Change | None, None]:
            if state.policy.placement.manage_allocations == ManageAllocations.NO or not consumers:
                return None, None
            unwritten = tuple(sorted(consumers))
            return Change(cause="placement", at=self._clock.now(), unwritten=unwritten), None

        self._writer.submit(decide, "placement")

    def remove(self, revisions: Mapping[str, int]) -> None:
        """Remove consumers from the outbox whose allocations Placement has.

        :param revisions: by consumer: those that were written. A consumer that has changed since
            stays.
        """

        def decide(state: NodeState) -> tuple[Change | None, None]:
            rows = ((uuid, state.outbox.get(uuid)) for uuid in sorted(revisions))
            written = tuple(u for u, row in rows if row and row.revision == revisions[u])
            if not written:
                return None, None
            return Change(cause="placement", at=self._clock.now(), written=written), None

        self._writer.submit(decide, "placement")
