"""Back up the database while it is in use, and remember where the last copy is.

An agent that finds its database damaged cannot read that there, so it is in a file next to it.
"""

import contextlib
import os
import sqlite3
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import Engine

from rtagent.db.backends import backend
from rtagent.errors import RtAgentError

#: Added to the name of the database.
SUFFIX = ".last-backup"
#: The longest path that is read, in bytes.
_MAX_LENGTH = 4096


def _remember(database: str, copy: Path) -> None:
    """Write down where the last copy of a database is.

    A failure is ignored, because the copy is there; only the remedy for damage does not name it.
    """
    fresh = Path(f"{database}{SUFFIX}.new")
    try:
        fresh.write_bytes(os.fsencode(copy.resolve()) + b"\n")  # a path may have any bytes
        fresh.replace(f"{database}{SUFFIX}")
    except OSError:
        with contextlib.suppress(OSError):
            fresh.unlink()


def with_last_backup(remedy: str, database: str | None) -> str:
    """Return what an operator does about damage, with the last known copy of the database."""
    known = _last_backup(f"{database}{SUFFIX}")
    return f"{remedy} ({known})" if known else remedy


def _last_backup(note: str) -> str:
    try:
        noted = os.fsdecode(Path(note).read_bytes()[:_MAX_LENGTH]).strip()
    except OSError:
        return ""
    if not noted.isprintable() or not noted.startswith("/"):
        return ""
    try:
        made = datetime.fromtimestamp(Path(noted).stat().st_mtime, UTC)
    except OSError:
        return f"the last copy, {noted}, cannot be read any more"
    return f"the last copy is {noted}, of {made:%Y-%m-%dT%H:%M:%SZ}"


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
    _remember(str(engine.url.database), target)


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
