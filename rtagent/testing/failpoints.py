"""Failpoints: boundaries of a store's transactions at which a test can kill the process.

Stores that do something around each call of another store: one fails when a test requests it.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from rtagent.errors import ConfigError, RtAgentError
from rtagent.model.base import Value
from rtagent.model.change import ANNOUNCEMENT, Change
from rtagent.model.node_state import NodeState
from rtagent.ports import Store

#: Every method of a store.
ALL = frozenset(name for name in vars(Store) if not name.startswith("_"))


def _passed_on(method: str) -> Any:
    def call(self: WrappedStore, *arguments: Any) -> Any:
        return self.around(method, partial(getattr(self._store, method), *arguments))

    return call


class WrappedStore:
    """A `Store` that passes each call on."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def around(self, method: str, call: Callable[[], Any]) -> Any:
        """Make a call. :param method: its name."""
        return call()

    enroll = _passed_on("enroll")
    load = _passed_on("load")
    reload = _passed_on("reload")
    commit = _passed_on("commit")
    position = _passed_on("position")
    operation = _passed_on("operation")
    evacuated = _passed_on("evacuated")
    ended = _passed_on("ended")
    retention = _passed_on("retention")
    purge = _passed_on("purge")
    history_page = _passed_on("history_page")


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

    def around(self, method: str, call: Callable[[], Any]) -> Any:
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


#: The environment variable that names a failpoint. ``commit.after:3`` kills the process when the
#: point is passed for the third time. ``commit.after/renew_claim:3`` kills it when a commit with a
#: change of that cause passes the point for the third time. Commits that only announce events, that
#: may happen at any time, count for their own cause alone.
VARIABLE = "RTAGENT_FAILPOINT"

#: In the order in which they are passed. `FailpointStore` passes ``before`` and ``after``, around a
#: whole transaction (after: durable, but not yet answered). `SqlStore` passes the others, inside.
POINTS = (
    "enroll.before",
    "enroll.node",
    "enroll.after",
    "reload.before",
    "reload.node",
    "reload.after",
    "commit.before",
    "commit.begun",
    "commit.node",
    "commit.claims",
    "commit.outbox",
    "commit.units",
    "commit.operations",
    "commit.events",
    "commit.notifications",
    "commit.after",
    "purge.before",
    "purge.after",
)


def die() -> None:
    """Kill this process, as a power failure would."""
    os.kill(os.getpid(), signal.SIGKILL)


class Failpoint:
    """Count how often one of `POINTS` is passed, and kill the process at the n-th time."""

    def __init__(
        self, name: str, passing: int = 1, die: Callable[[], None] = die, *, cause: str = ""
    ) -> None:
        """:param cause: count only commits with a change of that cause; "" counts all."""
        if name not in POINTS or passing < 1 or (cause and not name.startswith("commit.")):
            raise ConfigError(
                group="environment",
                option=VARIABLE,
                value=f"{name}{cause and '/'}{cause}:{passing}",
                rule="must be NAME or NAME:N, with N from 1 and NAME one of "
                + ", ".join(POINTS)
                + "; /CAUSE may follow a NAME that begins with commit",
            )
        self._name, self._left, self._die, self._cause = name, passing, die, cause
        self._lock = threading.Lock()
        self._causes: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, text: str, die: Callable[[], None] = die) -> Failpoint:
        """Parse ``NAME[/CAUSE][:N]``.

        :raises ConfigError:
        """
        where, colon, passing = text.partition(":")
        name, _, cause = where.partition("/")
        number = (int(passing) if passing.isdecimal() else 0) if colon else 1
        return cls(name, number, die, cause=cause)

    def committing(self, changes: Sequence[Change]) -> None:
        """Note that a commit of these changes begins. There is one commit at a time."""
        self._causes = frozenset(change.cause for change in changes)

    def passed(self, name: str) -> None:
        """Note that one of `POINTS` is passed."""
        if name != self._name or (self._cause and self._cause not in self._causes):
            return
        if name.startswith("commit.") and not self._cause and self._causes == {ANNOUNCEMENT}:
            return
        with self._lock:
            self._left -= 1
            if self._left == 0:
                self._die()


class FailpointStore(WrappedStore):
    """Passes its calls on, and reports boundaries to a failpoint. An `SqlStore` below it needs
    `Failpoint.passed`, too.
    """

    def __init__(self, store: Store, failpoint: Failpoint) -> None:
        super().__init__(store)
        self._failpoint = failpoint

    def around(self, method: str, call: Callable[[], Any]) -> Any:
        self._failpoint.passed(f"{method}.before")
        answer = call()
        self._failpoint.passed(f"{method}.after")
        return answer

    def commit(self, before: NodeState, after: NodeState, changes: Sequence[Change]) -> None:
        self._failpoint.committing(changes)
        super().commit(before, after, changes)
