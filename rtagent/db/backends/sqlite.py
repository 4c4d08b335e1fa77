"""SQLite: the embedded default."""

from __future__ import annotations

import sqlite3
from typing import Any, ClassVar

from sqlalchemy import Connection, Engine, event
from sqlalchemy.exc import DBAPIError

from rtagent.db.backends.backend import Backend, Code, Options


class SQLite(Backend):
    """WAL mode with an fsync for each commit. Writers wait for each other at BEGIN."""

    title = "SQLite"
    snapshot: ClassVar[Options] = {}
    serial: ClassVar[Options] = {}
    deadlocks: ClassVar[frozenset[Code]] = frozenset()
    # After an I/O error in COMMIT, recovery from a crash may still find the transaction in the WAL.
    unwritten: ClassVar[frozenset[Code]] = frozenset(
        {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY}
    )
    native_backup = None

    def arguments(self, timeout: float) -> Options:
        # The driver must not begin transactions, because it begins them without the lock.
        return {"connect_args": {"timeout": timeout, "isolation_level": None}}

    def listen(self, engine: Engine, timeout: float) -> None:
        event.listen(engine, "connect", _prepare)
        event.listen(engine, "begin", _begin)

    def code(self, error: DBAPIError) -> Code:
        number = getattr(error.orig, "sqlite_errorcode", None)
        # The low byte is the primary code. The rest identifies the failed system call.
        return None if number is None else number & 0xFF


def _prepare(connection: Any, _: object) -> None:
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
        connection.execute(f"PRAGMA {pragma}")


def _begin(connection: Connection) -> None:
    # A writer takes the lock at BEGIN, so that the rows that it reads stay valid until its commit.
    # A lock that is requested later may be refused without any wait.
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
