"""AllocationOutbox: writes the allocations of this node's claims.

It is level-triggered: the outbox in the node's state says whose allocations have to be written, and
what they should be is computed from the state of that moment. A row leaves the outbox only after
Placement has the allocation, so that a process that is killed writes it again after its restart.
"""

import random
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import islice

from rtagent.errors import PlacementError, Unavailable
from rtagent.model.base import Value
from rtagent.model.change import Change
from rtagent.model.consumers import OutboxRow, own_providers
from rtagent.model.health import Status
from rtagent.model.node_state import NodeState
from rtagent.model.policy import ManageAllocations
from rtagent.placement.client import HttpPlacement, use_request_id
from rtagent.placement.consumers import ConsumerWriter
from rtagent.placement.outbox_groups import GroupBatch, batches, differing_consumers, is_known
from rtagent.placement.schedule import LAST_RETRY, PartHealth, Pauses
from rtagent.ports import Clock, NullReporter, Reporter

#: Seconds for which written rows are gathered before one commit removes them.
GATHER = 1.0
#: Seconds for which rows are gathered before they are written, if no caller waits for them: a burst
#: of claims does not share the process with its own writes.
GATHER_ROWS = 0.3
#: The longest pause after a failure in seconds, while callers wait.
LAST_STRICT_RETRY = 3.0
#: Seconds until the first inventories are looked for again.
POLL = 0.2
#: The most batches of one turn, so that the other parts of the thread have theirs.
BATCHES = 8
#: Seconds after which a request without an answer is executed or lost. Servers and proxies give up
#: a request within 60 seconds.
SETTLED = 120.0
#: The name in health.
PART = "allocation_outbox"
#: How many consumers a message names.
NAMED = 3
#: Seconds for which allocations may be unwritten without a failure before that is reported.
SLOW = 60.0


class OutboxSource(Value, frozen=True, kw_only=True):
    """Callables of the node; each may be called from any thread.

    :ivar state: returns the published state.
    :ivar ready: whether allocations may be written: Placement has inventories of this node, and the
        claims are known to be complete.
    :ivar owns: whether the agent has created or adopted a provider that Placement still has, by
        uuid; raises `PlacementError`.
    :ivar enqueue: puts consumers into the outbox; raises `Unavailable`.
    :ivar remove: removes the rows of consumers that have these revisions from the outbox; raises
        `Unavailable`.
    """

    state: Callable[[], NodeState]
    ready: Callable[[], bool]
    owns: Callable[[str], bool]
    enqueue: Callable[[Collection[str]], None]
    remove: Callable[[Mapping[str, int]], None]


class AllocationOutbox:
    """Thread-safe. Only `turn` and methods with a timeout wait for Placement.

    Placement may execute a request after its sender has given it up, and after later requests. A
    claim that was aborted meanwhile would leave its allocation there. So consumers whose write had
    no answer are read again later.
    """

    def __init__(
        self,
        api: HttpPlacement,
        source: OutboxSource,
        clock: Clock,
        reporter: Reporter | None = None,
        *,
        wake: Callable[[], None] = lambda: None,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """:param wake: makes the thread look at `due_in`.
        :param jitter: returns a number from 0 to 1, called for each pause after a failure.
        """
        self._api, self._source, self._clock = api, source, clock
        self._reporter: Reporter = (reporter or NullReporter()).named(__name__)
        self._writer = ConsumerWriter(api)
        self._pauses = Pauses(jitter, lambda: LAST_STRICT_RETRY if self.strict else LAST_RETRY)
        self._settled_at: dict[str, float] = {}  # of consumers whose write had no answer
        self._health, self._wake_thread = PartHealth(PART, self._reporter), wake
        self._condition = threading.Condition()
        self._written: dict[str, int] = {}
        self._doubted: set[str] = set()
        self._compared = False
        self._reloaded = False
        self._woken_at = clock.monotonic()
        self._left = 0  # allocations that were not written after the last turn
        self._next = self._remove_at = float("inf")

    # -- status -----------------------------------------------------------------------------------

    @property
    def error(self) -> PlacementError | None:
        """Why allocations are not written at present, or None."""
        return self._pauses.error

    def unwritten(self) -> Sequence[OutboxRow]:
        """Return the rows whose allocations Placement does not have, oldest first."""
        rows = self._source.state().outbox.values()
        with self._condition:
            found = [row for row in rows if self._written.get(row.consumer_uuid) != row.revision]
        return sorted(found, key=lambda row: (row.revision, row.consumer_uuid))

    @property
    def age(self) -> float:
        """The age in seconds of the oldest allocation that Placement does not have; 0: none."""
        oldest = min((row.at for row in self.unwritten()), default=None)
        return 0.0 if oldest is None else max(0.0, (self._clock.now() - oldest).total_seconds())

    @property
    def strict(self) -> bool:
        """Whether callers wait for writes."""
        mode = self._source.state().policy.placement.manage_allocations
        return mode == ManageAllocations.STRICT

    @property
    def due_in(self) -> float:
        """Seconds until a turn is due; infinity: only after a change."""
        with self._condition:
            due = min(self._next, self._woken_at + (0.0 if self.strict else GATHER_ROWS))
            due = max(due, min(self._pauses.not_before, self._remove_at))
        return max(0.0, due - self._clock.monotonic())

    # -- requests ---------------------------------------------------------------------------------

    def listener(self, state: NodeState, changes: Sequence[Change]) -> None:
        """Wake if allocations may have to be written. For `ResourceTracker.listen`."""
        reloaded = not changes
        policy = any(change.policy is not None for change in changes)
        if reloaded or policy or any(change.owners or change.unwritten for change in changes):
            with self._condition:
                self._compared = self._compared and not policy
                self._reloaded = self._reloaded or reloaded
                self._doubted.update(*(change.unwritten for change in changes))
                self._wake()

    def recheck(self) -> None:
        """Compare all allocations soon, because options or another client may have changed them."""
        with self._condition:
            self._compared = False
            self._wake()

    def wait_written(self, consumers: Iterable[str], timeout: float) -> bool:
        """Whether Placement has what these consumers have now, within `timeout` seconds."""
        rows = self._source.state().outbox
        wanted = [rows[uuid] for uuid in consumers if uuid in rows]
        with self._condition:
            return self._condition.wait_for(lambda: all(map(self._is_written, wanted)), timeout)

    # -- turns ------------------------------------------------------------------------------------

    def turn(self) -> None:
        """Write what may be written now, in the caller's thread."""
        try:
            self._turn()
        except Exception as defect:  # the thread reports it
            failure = PlacementError(f"the writer of allocations has a defect: {defect!r}")
            self._pauses.fail(failure, self._clock.monotonic())
            self._plan()
            raise

    def finish(self) -> None:
        """Remove the written rows from the outbox, after the last turn."""
        self._remove(now=True)

    def _turn(self) -> None:
        with self._condition:
            self._woken_at, reloaded, self._reloaded = float("inf"), self._reloaded, False
        state = self._source.state()
        if reloaded:
            self._forget()
        if state.policy.placement.manage_allocations == ManageAllocations.NO:
            self._disable(len(state.outbox))
            return
        if self._source.ready() and self._clock.monotonic() >= self._pauses.not_before:
            try:
                self._compare()
                self._repeat_unanswered()
                self._drain()
            except PlacementError as error:
                self._writer.forget()
                self._pauses.fail(error, self._clock.monotonic())
        self._remove()
        self._plan()

    def _wake(self) -> None:
        """Note that a turn is needed. The caller has the lock."""
        gathering = self._woken_at < float("inf") and not self.strict
        self._woken_at = min(self._woken_at, self._clock.monotonic())
        if not gathering:
            self._wake_thread()

    def _plan(self) -> None:
        """Decide when the next turn is due without a wake-up, and report the health."""
        now, unwritten = self._clock.monotonic(), self.unwritten()
        self._pauses.keep(unwritten)
        self._left = len(unwritten)
        if not self._source.ready():
            self._next = min(self._remove_at, now + POLL)
        else:
            unanswered = min(self._settled_at.values(), default=float("inf"))
            times = [self._remove_at, max(unanswered, self._pauses.not_before)]
            if not self._compared:
                times.append(self._pauses.not_before)
            self._next = min(*times, *map(self._pauses.due, unwritten))
        self._report(unwritten, self._pauses.error)

    def _report(self, unwritten: Sequence[OutboxRow], error: PlacementError | None) -> None:
        age = self.age
        if not error and age < SLOW:
            self._health.note(Status.PASS)
            return
        names = ", ".join(row.consumer_uuid for row in unwritten[:NAMED])
        more = ", ..." if len(unwritten) > NAMED else ""
        count = f"{len(unwritten)} allocations are not written, the oldest for {age:.0f} s"
        text = f"{count} ({names}{more})" if unwritten else "allocations cannot be compared"
        reason = f": {error.message}" if error else ""
        kind = (type(error), error.kwargs.get("code")) if error else None
        self._health.note(Status.WARN, f"{text}{reason}", kind)

    # -- writes -----------------------------------------------------------------------------------

    def _compare(self) -> None:
        """Find allocations that differ from the claims, once after a start and on request."""
        if self._compared:
            return
        use_request_id("")
        state = self._source.state()
        self._writer.learn(own_providers(state))
        found = differing_consumers(self._api, state)
        self._enqueue(found)
        self._compared = True
        self._pauses.succeed(())  # there may be nothing to write

    def _repeat_unanswered(self) -> None:
        now = self._clock.monotonic()
        settled = [uuid for uuid, at in self._settled_at.items() if at <= now]
        self._enqueue(settled)
        for uuid in settled:
            del self._settled_at[uuid]

    def _enqueue(self, consumers: Collection[str]) -> None:
        try:
            if consumers:
                self._source.enqueue(consumers)
        except Unavailable as error:
            raise PlacementError(f"what differs cannot be recorded: {error.message}") from error

    def _drain(self) -> None:
        with self._condition:
            doubted, self._doubted = self._doubted, set()
        self._writer.forget(doubted)  # Placement has something else than was written
        now = self._clock.monotonic()
        due = self._known([row for row in self.unwritten() if self._pauses.due(row) <= now], now)
        for batch in islice(batches(self._source.state, self._source.owns, due), BATCHES):
            if not self._source.ready():
                return
            self._write(batch)
            self._remove()

    def _known(self, rows: Sequence[OutboxRow], now: float) -> Sequence[OutboxRow]:
        """Leave out the rows of damaged claims, until an operator has released these."""
        state = self._source.state()
        unknown = [row for row in rows if not is_known(state, row.consumer_uuid)]
        reason = PlacementError("the record of its claim is damaged or missing")
        self._pauses.refuse(unknown, {row.consumer_uuid: reason for row in unknown}, now)
        return [row for row in rows if row not in unknown] if unknown else rows

    def _write(self, batch: GroupBatch) -> None:
        use_request_id(batch.request_id)
        try:
            failed = self._writer.write(batch.groups, batch.own)
        except PlacementError:
            settled = self._clock.monotonic() + SETTLED
            self._settled_at |= {row.consumer_uuid: settled for row in batch.rows}
            raise
        now = self._clock.monotonic()
        self._pauses.refuse((row for row in batch.rows if row.consumer_uuid in failed), failed, now)
        done = [row for row in batch.rows if row.consumer_uuid not in failed]
        self._pauses.succeed(done)
        with self._condition:
            self._written |= {row.consumer_uuid: row.revision for row in done}
            if done:
                self._remove_at = min(self._remove_at, now + GATHER)
            self._condition.notify_all()

    def _remove(self, *, now: bool = False) -> None:
        """Remove written rows from the outbox, if they have been gathered for long enough."""
        if not now and self._clock.monotonic() < self._remove_at:
            return
        rows = self._source.state().outbox
        with self._condition:
            written = {uuid: revision for uuid, revision in self._written.items() if uuid in rows}
        try:
            if written:
                self._source.remove(written)
        except Unavailable:
            self._remove_at = self._clock.monotonic() + GATHER  # the rows are still there
            return
        with self._condition:
            self._remove_at = float("inf")
            for uuid in [uuid for uuid in self._written if uuid not in self._source.state().outbox]:
                del self._written[uuid]

    def _is_written(self, row: OutboxRow) -> bool:
        uuid = row.consumer_uuid
        return (
            uuid not in self._source.state().outbox or self._written.get(uuid, -1) >= row.revision
        )

    def _disable(self, rows: int) -> None:
        """Write nothing, because others manage allocations. :param rows: in the outbox."""
        if self._left >= 0 and (left := max(rows, self._left)):
            self._reporter.log(
                "warning",
                f"{left} allocations that the agent had not written are left to others, because"
                " [placement] manage_allocations is no",
            )
        self._left = -1  # the rows are dropped with the next write of the policy
        self._forget()
        self._settled_at.clear()
        self._pauses.succeed(())
        self._pauses.keep(())
        self._next = float("inf")
        if self._health.status != Status.PASS:
            self._health.note(Status.PASS)

    def _forget(self) -> None:
        """Forget what Placement has, and what was written of rows that may be others now."""
        self._writer.forget()
        with self._condition:
            self._compared = False
            self._written.clear()
            self._remove_at = float("inf")
