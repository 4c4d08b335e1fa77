"""Stores that do something around each call of another store: one fails when a test requests it."""

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeVar

from msgspec.structs import replace

from rtagent.errors import RtAgentError
from rtagent.model.base import Value
from rtagent.model.change import Change, Operation
from rtagent.model.claim import ClaimEnd, HistoryPage
from rtagent.model.migration import TakenOver
from rtagent.model.node_state import NodeState
from rtagent.model.stored import Position, Retention, Stored
from rtagent.ports import Enroll, Store

_T = TypeVar("_T")

#: Every method of a store.
ALL = frozenset(
    (
        "enroll",
        "load",
        "reload",
        "commit",
        "position",
        "operation",
        "evacuated",
        "ended",
        "retention",
        "purge",
        "history_page",
    )
)


class WrappedStore:
    """A `Store` that passes each call on."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def around(self, method: str, call: Callable[[], _T]) -> _T:
        """Make a call. :param method: its name."""
        return call()

    def enroll(self, uuid: str, hypervisor_hostname: str, enroll: Enroll) -> Stored:
        return self.around("enroll", lambda: self._store.enroll(uuid, hypervisor_hostname, enroll))

    def load(self, node_uuid: str) -> Stored:
        return self.around("load", lambda: self._store.load(node_uuid))

    def reload(self, node_uuid: str, epoch: int) -> Stored:
        return self.around("reload", lambda: self._store.reload(node_uuid, epoch))

    def commit(self, before: NodeState, after: NodeState, changes: Sequence[Change]) -> None:
        self.around("commit", lambda: self._store.commit(before, after, changes))

    def position(self, node_uuid: str) -> Position | None:
        return self.around("position", lambda: self._store.position(node_uuid))

    def operation(self, node_uuid: str, operation_id: str) -> Operation | None:
        return self.around("operation", lambda: self._store.operation(node_uuid, operation_id))

    def evacuated(self, node_uuid: str) -> Mapping[str, TakenOver]:
        return self.around("evacuated", lambda: self._store.evacuated(node_uuid))

    def ended(self, node_uuid: str, owners: Collection[str]) -> Mapping[str, ClaimEnd]:
        return self.around("ended", lambda: self._store.ended(node_uuid, owners))

    def retention(self, node_uuid: str) -> Retention:
        return self.around("retention", lambda: self._store.retention(node_uuid))

    def purge(self, node_uuid: str, revision: int, kept: Retention) -> int:
        return self.around("purge", lambda: self._store.purge(node_uuid, revision, kept))

    def history_page(
        self, node_uuid: str, claim_uuid: str | None, before: int | None, limit: int
    ) -> HistoryPage:
        return self.around(
            "history_page", lambda: self._store.history_page(node_uuid, claim_uuid, before, limit)
        )


class _Fault(Value, frozen=True, kw_only=True):
    error: Callable[[], RtAgentError]
    left: int | None
    on: Collection[str]
    after: bool


class FailingStore(WrappedStore):
    """Passes each call on, except those that `fail` selects.

    :ivar calls: the number of calls, by method.
    """

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._lock = threading.Lock()
        self._fault: _Fault | None = None
        self.calls: dict[str, int] = dict.fromkeys(sorted(ALL), 0)

    def fail(
        self,
        error: Callable[[], RtAgentError],
        times: int | None = 1,
        *,
        on: Collection[str] = ("commit",),
        after: bool = False,
    ) -> None:
        """Fail the next calls of these methods. Replaces an earlier `fail`.

        :param error: makes the error; a class of rtagent.errors, for example.
        :param times: the number of calls; None: all, until `heal`.
        :param after: do the work first. `CommitUnknown` with and without it are the two outcomes of
            a connection that is lost during COMMIT.
        """
        self._fault = _Fault(error=error, left=times, on=on, after=after)

    def heal(self) -> None:
        """Stop failing."""
        self._fault = None

    def around(self, method: str, call: Callable[[], _T]) -> _T:
        fault = self._take(method)
        if fault is None:
            return call()
        if fault.after:
            call()
        raise fault.error()

    def _take(self, method: str) -> _Fault | None:
        with self._lock:
            self.calls[method] += 1
            fault = self._fault
            if fault is None or method not in fault.on:
                return None
            left = None if fault.left is None else fault.left - 1
            self._fault = None if left == 0 else replace(fault, left=left)
            return fault
