"""A copy of the database, taken while it is in use."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from sqlalchemy import Engine

from rtagent.db.backends import backend
from rtagent.errors import RtAgentError


def backup(engine: Engine, target: Path) -> None:
    """Copy an SQLite database, as it is at one moment, to a file that does not exist yet. Commits
    go on meanwhile.

    :raises RtAgentError: it cannot be done; for a server's database, naming the tool that can.
    """
    kind = backend(engine.dialect.name)
    if kind.native_backup is not None:
        raise RtAgentError(f"{kind.title} has a tool of its own for this: {kind.native_backup}")
    try:
        # Claims name their tenants: for the owner's eyes.
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except OSError as error:
        raise RtAgentError(f"{target}: {error.strerror}") from error
    try:
        _copy(engine, target)
    except sqlite3.Error as error:
        target.unlink()
        raise RtAgentError(f"{target}: {error}") from error


def _copy(engine: Engine, target: Path) -> None:
    source = engine.raw_connection()
    copy = sqlite3.connect(target)
    try:
        driver = source.driver_connection
        assert isinstance(driver, sqlite3.Connection)
        driver.backup(copy)
        faults = copy.execute("PRAGMA integrity_check").fetchone()[0]
        if faults != "ok":
            raise sqlite3.DatabaseError(f"the copy is damaged: {faults}")
    finally:
        copy.close()
        source.close()
