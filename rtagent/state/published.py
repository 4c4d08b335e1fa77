"""PublishedState: the last committed state, and its readers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from rtagent.model.node_state import NodeState

#: How many notes of touched keys are kept before those that no audit needs are dropped.
NOTES = 1024


class PublishedState:
    """The state that everybody reads, without a lock.

    :ivar current: assigned by the leader of a batch, or by the recovery of a stale state.
    :ivar replacing: held by the one of them that replaces the state, with its commit or reload.
    """

    def __init__(self, state: NodeState) -> None:
        self.current = state
        self.replacing = threading.Lock()
        self._mutex = threading.Lock()
        self._bases: list[int] = []

    @contextmanager
    def observing(self) -> Iterator[NodeState]:
        """The base of an audit. As long as the context lasts, touched keys stay noted."""
        with self._mutex:
            base = self.current
            self._bases.append(base.revision)
        try:
            yield base
        finally:
            with self._mutex:
                self._bases.remove(base.revision)

    def pruned(self) -> NodeState:
        """The state without the notes of touched keys that no audit needs, if there are many."""
        state = self.current
        if len(state.touched) <= NOTES:
            return state
        with self._mutex:
            oldest = min(self._bases, default=state.revision)
        return state.pruned(oldest)
