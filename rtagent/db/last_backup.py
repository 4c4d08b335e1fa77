"""LastBackup: which copy of the embedded database is the last one, in a file next to the database.

An agent that finds its database damaged cannot read it there.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

#: Added to the name of the database.
SUFFIX = ".last-backup"
#: The longest path that is read, in bytes.
_MAX_LENGTH = 4096


def remember(database: str | None, copy: Path) -> None:
    """Write down where the last copy of a database is.

    A failure is ignored, because the copy is there; only the remedy for damage does not name it.

    :param database: the path of the file; None: it is no file.
    """
    if not database or not (file := Path(database)).is_file():
        return
    fresh = file.with_name(f"{file.name}{SUFFIX}.new")
    try:
        fresh.write_bytes(os.fsencode(copy.resolve()) + b"\n")  # a path may have any bytes
        os.replace(fresh, file.with_name(f"{file.name}{SUFFIX}"))
    except OSError:
        fresh.unlink(missing_ok=True)


def with_last_backup(remedy: str, database: str | None) -> str:
    """Return what an operator does about damage, with the last known copy of the database.

    :param database: as for `remember`.
    """
    known = _last_backup(f"{database}{SUFFIX}") if database else ""
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
