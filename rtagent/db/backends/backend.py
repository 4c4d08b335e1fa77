"""The interface of a database backend."""

import select
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError, DisconnectionError

from rtagent.model.base import Value

Options = dict[str, Any]

#: Words of drivers' own time-outs, which have no code of their own: while they connect, and while
#: they wait for a server that does not answer.
_TIMED_OUT = ("timed out", "timeout expired", "did not answer in time")

#: A driver's code of an error: SQLite's and MariaDB's numbers, PostgreSQL's SQLSTATE.
Code = str | int | None

#: Executes a statement on one connection, and returns its rows.
Query = Callable[[str], Sequence[Sequence[Any]]]


class Fault(Value, frozen=True, kw_only=True):
    """A setting with which the database may lose committed transactions, or a file that it has
    lost.
    """

    setting: str
    value: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.setting} is {self.value}: {self.remedy}"


class Backend(ABC):
    """One kind of database.

    :cvar title: the product's name.
    :cvar snapshot: execution options with which several reads see the same state.
    :cvar serial: execution options that isolate a transaction from others of its kind.
    :cvar name_lock: a statement that locks ``:name`` until the transaction ends; None: `serial` is
        used.
    :cvar deadlocks: error codes that mean "ended in favour of another transaction".
    :cvar timeouts: error codes that mean "it took too long", apart from the driver's own ones.
    :cvar unwritten: further error codes of a failed COMMIT that has definitely written nothing.
    :cvar damaged: error codes that mean "the stored data is damaged".
    :cvar check: a statement that checks all data and returns "ok"; None: the server does it itself.
    :cvar restore: what an operator does about damage.
    :cvar now: an SQL expression for the server's time in UTC; None if it has no clock of its own.
    :cvar native_backup: the server's own backup command, or None if `rtagent.db.backup` is used.
    """

    title: ClassVar[str]
    snapshot: ClassVar[Options] = {"isolation_level": "REPEATABLE READ"}
    serial: ClassVar[Options] = {"isolation_level": "SERIALIZABLE"}
    name_lock: ClassVar[str | None] = None
    deadlocks: ClassVar[frozenset[Code]] = frozenset()
    timeouts: ClassVar[frozenset[Code]]
    unwritten: ClassVar[frozenset[Code]] = frozenset()
    damaged: ClassVar[frozenset[Code]]
    check: ClassVar[str | None] = None
    restore: ClassVar[str] = (
        "stop the agent, and repair the database or restore a backup with the server's own tools"
    )
    now: ClassVar[str | None] = None
    native_backup: ClassVar[str | None] = None

    @abstractmethod
    def arguments(self, timeout: float) -> Options:
        """Return arguments of `create_engine` that bound every wait by `timeout` seconds."""

    @abstractmethod
    def listen(self, engine: Engine, timeout: float) -> None:
        """Register the event listeners that prepare each connection."""

    @abstractmethod
    def faults(self, connection: Any, query: Query) -> Sequence[Fault]:
        """Return why a connection may lose what it commits.

        :param connection: the driver's. :param query: executes a statement on it.
        """

    @abstractmethod
    def code(self, error: DBAPIError) -> Code:
        """Return the driver's code of an error."""

    def timed_out(self, error: DBAPIError) -> bool:
        """Return whether an error means that a bound of `arguments` or `listen` was exceeded."""
        text = str(error.orig)
        return self.code(error) in self.timeouts or any(words in text for words in _TIMED_OUT)


def refuse_dropped(descriptor: int) -> None:
    """Make the pool replace a connection that its server has closed.

    An idle server sends nothing, so pending input means that it has closed the connection. This
    check needs no round trip, unlike the pool's own ping, which would cost one for each commit. It
    also avoids a second wait for a frozen server.
    """
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    if poll.poll(0):
        raise DisconnectionError("the server has closed the connection")


def server_seconds(timeout: float) -> float:
    """Return the time-out that the server applies itself. It is a little shorter than the client's,
    so that the server's own error, which names the cause, comes first.
    """
    return timeout * 0.9
