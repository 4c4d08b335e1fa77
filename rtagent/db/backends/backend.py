"""What a database must tell us of itself."""

from __future__ import annotations

import select
from abc import ABC, abstractmethod
from typing import Any, ClassVar

from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError, DisconnectionError

Options = dict[str, Any]

#: A driver's code of an error: SQLite's and MariaDB's numbers, PostgreSQL's SQLSTATE.
Code = str | int | None


class Backend(ABC):
    """One kind of database.

    :cvar title: what people call it.
    :cvar snapshot: execution options with which several reads see one moment.
    :cvar serial: the same for a transaction that must not overlap with another of its kind.
    :cvar deadlocks: codes that mean "ended in favour of another transaction".
    :cvar unwritten: further codes with which a COMMIT that fails has surely written nothing.
    :cvar native_backup: the command that copies such a database, or None when `backup` does it.
    """

    title: ClassVar[str]
    snapshot: ClassVar[Options]
    serial: ClassVar[Options]
    deadlocks: ClassVar[frozenset[Code]]
    unwritten: ClassVar[frozenset[Code]]
    native_backup: ClassVar[str | None]

    @abstractmethod
    def arguments(self, timeout: float) -> Options:
        """For `create_engine`: every wait is bounded by `timeout` seconds."""

    @abstractmethod
    def listen(self, engine: Engine, timeout: float) -> None:
        """Prepare each new connection, and whatever else the kind needs."""

    @abstractmethod
    def code(self, error: DBAPIError) -> Code:
        """The driver's code of an error."""


def refuse_dropped(descriptor: int) -> None:
    """Have the pool replace a connection that its server has closed.

    Nothing is to be read from a server while no question is open: what is there is its farewell.
    This costs no round trip, which the pool's own ping would, at each commit; and a server that is
    frozen is waited for once, not twice.
    """
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    if poll.poll(0):
        raise DisconnectionError("the server has closed the connection")


def server_seconds(timeout: float) -> float:
    """How long a server may take itself: a little less than we wait for it, so that its own
    answer, which names the cause, comes first."""
    return timeout * 0.9
