"""Locks on files, held for the life of the process."""

from __future__ import annotations

import os
from pathlib import Path

from oslo_concurrency import lockutils

from rtagent.errors import IdentityError


class FileLock:
    """Keeps a second agent out. The kernel drops it when the process ends, however it ends.

    :param remedy: what the operator of the second agent can do.
    """

    def __init__(self, path: Path, remedy: str) -> None:
        self.path, self._remedy = path, remedy
        self._lock = lockutils.InterProcessLock(str(path))

    def take(self) -> None:
        """:raises IdentityError: another process holds it, or the file cannot be had."""
        try:
            if not self._lock.acquire(blocking=False):
                raise IdentityError(
                    f"{self.path} is locked by process {self._holder()}: another rtagentd runs."
                    f" {self._remedy}"
                )
            file = self._lock.lockfile
            file.truncate(0)
            file.write(f"{os.getpid()}\n")
            file.flush()
        except OSError as exc:
            raise IdentityError(f"{self.path} cannot be locked: {exc.strerror}") from exc

    def drop(self) -> None:
        """Let the next one in; nothing if it was never taken."""
        if self._lock.acquired:
            self._lock.release()

    def _holder(self) -> str:
        return self.path.read_text().strip() or "(unknown)"


def state_directory(state_path: str) -> FileLock:
    """One agent for each state directory."""
    return FileLock(
        Path(state_path, "lock"), "Stop that one, or give this one a state_path of its own"
    )


def hypervisor(lock_path: str, host_uuid: str) -> FileLock:
    """One agent for each hypervisor, whatever their state directories."""
    return FileLock(
        Path(lock_path, f"rtagent-{host_uuid}.lock"),
        f"Stop that one: the hypervisor {host_uuid} has an agent already",
    )
