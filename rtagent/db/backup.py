"""Back up the database while it is in use."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from sqlalchemy import Engine

from rtagent.db.backends import backend
from rtagent.db.last_backup import remember
from rtagent.errors import RtAgentError


def backup(engine: Engine, target: Path) -> None:
    """Copy an SQLite database, in a consistent state, to a new file. Commits continue meanwhile.

    :raises RtAgentError: the copy failed, or the database is on a server: the message names the
        server's own tool.
    """
    kind = backend(engine.dialect.name)
    if kind.native_backup is not None:
        raise RtAgentError(f"{kind.title} has its own tool for backups: {kind.native_backup}")
    try:
        # Claims name projects and users, so only the file's owner may read it.
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except OSError as error:
        raise RtAgentError(f"{target}: {error.strerror}") from error
    try:
        _copy(engine, target)
    except sqlite3.Error as error:
        target.unlink()
        raise RtAgentError(f"{target}: {error}") from error
    remember(engine.url.database, target)


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
