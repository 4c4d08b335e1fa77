"""SQLite: the embedded default."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar
from weakref import WeakSet

from sqlalchemy import Connection, Engine, event
from sqlalchemy.exc import DBAPIError

from rtagent.db.backends.backend import Backend, Code, Fault, Options, Query
from rtagent.errors import StoreUnavailable

#: Device and inode; None if there is no such file.
FileId = tuple[int, int] | None

REMEDY = (
    "put back the file that the agent has opened, or stop the agent, restore a backup, and start it"
)


def file_id(path: str) -> FileId:
    """Return the device and the inode of a file."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


class DatabaseFiles:
    """The files that a process has opened, by path. Immutable."""

    def __init__(self, opened: Mapping[str, FileId]) -> None:
        self._opened = opened

    def with_those_at(self, *paths: str) -> DatabaseFiles:
        """Note the files that are at further paths now."""
        return DatabaseFiles({**self._opened, **{path: file_id(path) for path in paths}})

    @property
    def known(self) -> bool:
        """Whether any file is noted."""
        return bool(self._opened)

    def faults(self) -> list[Fault]:
        """Return the files to which their paths do not lead any more."""
        return [
            Fault(setting=path, value="replaced" if found else "removed", remedy=REMEDY)
            for path, opened in self._opened.items()
            if (found := file_id(path)) != opened
        ]


_FULL, _EXTRA = 2, 3


class SQLite(Backend):
    """WAL mode with an fsync for each commit. Writers wait for each other at BEGIN."""

    title = "SQLite"
    snapshot: ClassVar[Options] = {}
    serial: ClassVar[Options] = {}
    timeouts: ClassVar[frozenset[Code]] = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
    # After an I/O error in COMMIT, recovery from a crash may still find the transaction in the WAL.
    unwritten: ClassVar[frozenset[Code]] = frozenset(
        {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY}
    )
    damaged: ClassVar[frozenset[Code]] = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
    # PRAGMA quick_check would leave out the indexes, by which rows are found.
    check = "PRAGMA integrity_check(3)"
    restore = (
        "stop the agent, and restore the last copy that rtagent db backup has made with rtagent db"
        " restore; or, if there is none, start once with rtagentd --rebuild, which sets the file"
        " aside and begins without claims"
    )

    def arguments(self, timeout: float) -> Options:
        # The driver must not begin transactions, because it begins them without the lock.
        return {"connect_args": {"timeout": timeout, "isolation_level": None}}

    def listen(self, engine: Engine, timeout: float) -> None:
        event.listen(engine, "do_connect", _Connector().connect)
        event.listen(engine, "connect", _prepare)
        event.listen(engine, "begin", _begin)

    def faults(self, connection: Any, query: Query) -> Sequence[Fault]:
        ((mode,),), ((sync,),) = query("PRAGMA journal_mode"), query("PRAGMA synchronous")
        found: list[Fault] = connection.files.faults()
        if mode != "wal":
            remedy = "put the database on a local file system that supports shared memory"
            found.append(Fault(setting="journal_mode", value=mode, remedy=remedy))
        if sync not in (_FULL, _EXTRA):
            remedy = "use an SQLite library that supports PRAGMA synchronous = FULL"
            found.append(Fault(setting="synchronous", value=str(sync), remedy=remedy))
        return found

    def code(self, error: DBAPIError) -> Code:
        number = getattr(error.orig, "sqlite_errorcode", None)
        # The low byte is the primary code. The rest identifies the failed system call.
        return None if number is None else number & 0xFF


class _FileConnection(sqlite3.Connection):
    """A connection whose commits fail if a path does not lead to its open file any more.

    :ivar files: the open files. :ivar misplaced: the last check found one removed or replaced.
    """

    files = DatabaseFiles({})
    misplaced = False

    def commit(self) -> None:
        super().commit()
        # Not before the commit: the files could be removed between the check and the commit.
        self.check_files(sqlite3.OperationalError)

    def close(self) -> None:
        self.files = DatabaseFiles({})
        super().close()

    def check_files(self, error: type[Exception]) -> None:
        """Raise this error if a file was removed or replaced."""
        faults = self.files.faults()
        self.misplaced = bool(faults)
        if faults:
            raise error("; ".join(map(str, faults)))


class _Connector:
    """Opens the connections of one engine, all to the same file."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._first = DatabaseFiles({})
        self._opened: WeakSet[_FileConnection] = WeakSet()

    def connect(self, _: object, __: object, args: Any, kwargs: Any) -> _FileConnection:
        """Open a connection. Only the first one of a process may create the file."""
        (path,) = args
        if kwargs.get("uri"):
            return sqlite3.connect(path, factory=_FileConnection, **kwargs)
        with self._lock:
            self._check_opened()
            name = path
            if self._first.known:
                name, kwargs = Path(path).absolute().as_uri() + "?mode=rw", {**kwargs, "uri": True}
            connection = sqlite3.connect(name, factory=_FileConnection, **kwargs)
            if not self._first.known:
                self._first = self._first.with_those_at(path)
            connection.files = self._first
            self._opened.add(connection)
        return connection

    def _check_opened(self) -> None:
        """Check the files of the other connections, too: without their WAL, a new connection would
        begin another one, and the two would overwrite each other's pages.
        """
        for files in (self._first, *(connection.files for connection in self._opened)):
            if faults := files.faults():
                raise sqlite3.OperationalError(str(faults[0]))


def _prepare(connection: _FileConnection, _: object) -> None:
    connection.text_factory = _text
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
        connection.execute(f"PRAGMA {pragma}")
    # The first read opens the WAL and the shared memory.
    connection.execute("PRAGMA schema_version")
    query = "SELECT file FROM pragma_database_list WHERE name = 'main'"
    ((path,),) = connection.execute(query)
    # The path in the URL may be a symbolic link. The other files are next to the database itself.
    connection.files = connection.files.with_those_at(path, f"{path}-wal", f"{path}-shm")


def _text(raw: bytes) -> str | bytes:
    # The driver's own conversion would end the whole query at one damaged text.
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw


def _begin(connection: Connection) -> None:
    # A writer takes the lock at BEGIN, so that the rows that it reads stay valid until its commit.
    # A lock that is requested later may be refused without any wait.
    writes = connection.get_execution_options().get("writes", False)
    raw: Any = connection.connection.dbapi_connection
    if writes and raw.misplaced:
        raw.check_files(StoreUnavailable)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
