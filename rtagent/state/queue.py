"""DecisionQueue: decisions that wait for a commit, and whose turn it is to commit.

One caller at a time leads: it takes a batch from the queue and serves it. When the batch is done,
the caller of the first decision in the queue leads.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from rtagent.errors import ClaimConflict, TrackerBusy
from rtagent.model.change import Call, Change
from rtagent.model.node_state import NodeState

#: Decides on a state: the change to commit, or None, and the answer to the caller.
Decide = Callable[[NodeState], tuple[Change | None, Any]]


class Pending:
    """A queued decision, and its result. A batch that fails may be decided again.

    :ivar turn: set when the decision is done, or when its caller has to lead.
    :ivar leads: its caller leads. :ivar done: the result is final.
    """

    def __init__(self, decide: Decide, purpose: str, call: Call | None, now: float) -> None:
        self.decide, self.purpose, self.call, self.queued_at = decide, purpose, call, now
        self.turn = threading.Event()
        self.leads = self.done = False
        self.change: Change | None = None
        self.answer: Any = None
        self.error: Exception | None = None

    def again(self, now: float) -> Pending:
        """Return the decision as one that was not queued yet."""
        return Pending(self.decide, self.purpose, self.call, now)

    def fail(self, error: Exception) -> None:
        """Set an error as the result."""
        self.change, self.answer, self.error = None, None, error

    def refuse(self, error: Exception) -> None:
        """Set an error as the final result of a decision that was not queued."""
        self.fail(error)
        self.done = True
        self.turn.set()


class DecisionQueue:
    """Thread-safe. Its lock is held for a few instructions at a time."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._finished = threading.Condition(self._mutex)
        self._queue: deque[Pending] = deque()
        self._in_flight: dict[str, Pending] = {}
        self._leading = False

    def __len__(self) -> int:
        """How many decisions wait; those that are being committed are not counted."""
        return len(self._queue)

    def add(self, pending: Pending) -> Pending:
        """Queue a decision. If one with the same operation id is in flight, return that instead.

        :raises ClaimConflict: the operation in flight has other content.
        """
        call = pending.call
        with self._mutex:
            if call is not None:
                first = self._in_flight.setdefault(call.operation_id, pending)
                if first is not pending:
                    _check_same_content(call, first.call)
                    return first
            self._queue.append(pending)
            if not self._leading:
                self._leading = pending.leads = True
                pending.turn.set()
        return pending

    def join(self, pending: Pending) -> None:
        """Wait until another caller's decision is done. This is bounded, because that caller's own
        wait is."""
        with self._mutex:
            self._finished.wait_for(lambda: pending.done)

    def withdraw(self, pending: Pending) -> bool:
        """Remove a decision if it is still queued; once it is in a batch it has to be awaited."""
        with self._mutex:
            if pending.leads or pending not in self._queue:
                return False
            self._queue.remove(pending)
            pending.fail(TrackerBusy(f"{pending.purpose} was withdrawn before its turn came"))
            self._finish((pending,))
            return True

    def next_batch(self, own: Pending, limit: int) -> list[Pending]:
        """Take the leader's own decision, which is the first in the queue, and those behind it."""
        with self._mutex:
            self._queue.remove(own)
            more = min(limit - 1, len(self._queue))
            return [own, *(self._queue.popleft() for _ in range(more))]

    def finish(self, batch: Sequence[Pending]) -> None:
        """Hand the lead on, and answer the callers of a batch."""
        with self._mutex:
            self._leading = bool(self._queue)
            if self._queue:
                self._queue[0].leads = True
                self._queue[0].turn.set()
            self._finish(batch)

    def _finish(self, batch: Sequence[Pending]) -> None:
        """Answer the callers. The mutex is held."""
        for pending in batch:
            pending.done = True
            if pending.call is not None:
                self._in_flight.pop(pending.call.operation_id, None)
            pending.turn.set()
        self._finished.notify_all()


def _check_same_content(call: Call, first: Call | None) -> None:
    if first is not None and first.digest != call.digest:
        raise ClaimConflict(
            f"operation id {call.operation_id} is under way for another {first.method}",
            operation_id=call.operation_id,
        )
