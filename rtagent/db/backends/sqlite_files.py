"""The files of an SQLite database: whether their paths still lead to what a process has opened.

SQLite goes on writing to a file that was removed or replaced, and the next start would not find
what it wrote.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from rtagent.db.backends.backend import Fault

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
