"""Places at which the process can be told to die: every boundary of a store's transactions."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from rtagent.errors import ConfigError
from rtagent.model.change import Change, Operation
from rtagent.model.host import HostState
from rtagent.model.migration import TakenOver
from rtagent.ports import Enroll, Store, Stored

#: The environment variable that names one. ``commit.after:3`` dies at the third passing,
#: ``commit.after/renew_claim:3`` at the third by a commit that has a change of that cause in it.
VARIABLE = "RTAGENT_FAILPOINT"

#: In the order in which they are passed. ``before`` and ``after`` are `FailpointStore`'s, around a
#: whole transaction (after: durable, not yet answered); the others are inside `SqlStore`'s.
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
    "commit.units",
    "commit.operations",
    "commit.events",
    "commit.after",
    "purge.before",
    "purge.after",
)


def die() -> None:
    """End this process as a power cut would."""
    os.kill(os.getpid(), signal.SIGKILL)


class Failpoint:
    """Counts how often one of `POINTS` is passed, and dies at the n-th time."""

    def __init__(
        self, name: str, passing: int = 1, die: Callable[[], None] = die, *, cause: str = ""
    ) -> None:
        """:param cause: count only the commits of a change with that cause; "" counts them all."""
        if name not in POINTS or passing < 1 or (cause and not name.startswith("commit.")):
            raise ConfigError(
                group="environment",
                option=VARIABLE,
                value=f"{name}{cause and '/'}{cause}:{passing}",
                rule="must be NAME or NAME:N, N from 1, NAME one of "
                + ", ".join(POINTS)
                + "; /CAUSE may follow the name of a commit's",
            )
        self._name, self._left, self._die, self._cause = name, passing, die, cause
        self._lock = threading.Lock()
        self._causes: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, text: str, die: Callable[[], None] = die) -> Failpoint:
        """From ``NAME[/CAUSE][:N]``.

        :raises ConfigError:
        """
        where, colon, passing = text.partition(":")
        name, _, cause = where.partition("/")
        number = (int(passing) if passing.isdecimal() else 0) if colon else 1
        return cls(name, number, die, cause=cause)

    def committing(self, changes: Sequence[Change]) -> None:
        """A commit of these begins; there is one at a time."""
        self._causes = frozenset(change.cause for change in changes)

    def passed(self, name: str) -> None:
        """To be called at each of `POINTS`, by its name."""
        if name != self._name or (self._cause and self._cause not in self._causes):
            return
        with self._lock:
            self._left -= 1
            if self._left == 0:
                self._die()


class FailpointStore:
    """A `Store` that passes its calls on and tells the failpoint. An `SqlStore` beneath it is
    given `Failpoint.passed` too."""

    def __init__(self, store: Store, failpoint: Failpoint) -> None:
        self._store, self._failpoint, self._passed = store, failpoint, failpoint.passed

    def enroll(self, uuid: str, hypervisor_hostname: str, enroll: Enroll) -> Stored:
        self._passed("enroll.before")
        stored = self._store.enroll(uuid, hypervisor_hostname, enroll)
        self._passed("enroll.after")
        return stored

    def load(self, node_uuid: str) -> Stored:
        return self._store.load(node_uuid)

    def reload(self, node_uuid: str, epoch: int) -> Stored:
        self._passed("reload.before")
        stored = self._store.reload(node_uuid, epoch)
        self._passed("reload.after")
        return stored

    def commit(self, before: HostState, after: HostState, changes: Sequence[Change]) -> None:
        self._failpoint.committing(changes)
        self._passed("commit.before")
        self._store.commit(before, after, changes)
        self._passed("commit.after")

    def epoch(self, node_uuid: str) -> int:
        return self._store.epoch(node_uuid)

    def operation(self, node_uuid: str, operation_id: str) -> Operation | None:
        return self._store.operation(node_uuid, operation_id)

    def evacuated(self, node_uuid: str) -> Mapping[str, TakenOver]:
        return self._store.evacuated(node_uuid)

    def purge(self, node_uuid: str, before: datetime) -> int:
        self._passed("purge.before")
        gone = self._store.purge(node_uuid, before)
        self._passed("purge.after")
        return gone
