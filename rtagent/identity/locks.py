"""Locks on files. A process keeps them until it ends."""

from __future__ import annotations

import os
from pathlib import Path

from oslo_concurrency import lockutils

from rtagent.errors import IdentityError
from rtagent.ports import HostIdentity, Reporter


class FileLock:
    """Excludes a second agent. Linux releases the lock when the process ends for any reason.

    :param remedy: the remedy for the operator of the second agent.
    """

    def __init__(self, path: Path, remedy: str) -> None:
        self.path, self._remedy = path, remedy
        self._lock = lockutils.InterProcessLock(str(path))

    def take(self) -> None:
        """Lock the file and write this process's id into it.

        :raises IdentityError: another process has the lock, or the file cannot be used.
        """
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

    @property
    def held(self) -> bool:
        """Whether this object has the lock."""
        return bool(self._lock.acquired)

    def drop(self) -> None:
        """Release the lock, if it is held."""
        if self.held:
            self._lock.release()

    def _holder(self) -> str:
        return self.path.read_text().strip() or "(unknown)"


def state_directory_lock(state_path: str) -> FileLock:
    """Return the lock that allows one agent for each state directory."""
    return FileLock(
        Path(state_path, "lock"), "Stop that one, or give this one a state_path of its own"
    )


class HypervisorLock:
    """Allows one agent for each hypervisor, and one hypervisor for each agent.

    On a machine whose firmware has no uuid, libvirt generates a host uuid at each start. So there
    is one lock for each uuid that the host has had while this process runs.
    """

    def __init__(self, lock_path: str, reporter: Reporter) -> None:
        """:param lock_path: a directory that all agents of this machine share."""
        self._lock_path, self._reporter = lock_path, reporter.named(__name__)
        self._hostname: str | None = None
        self._locks: dict[str, FileLock] = {}

    def take(self, found: HostIdentity) -> None:
        """Lock the connected hypervisor. Call this after each connection.

        :raises IdentityError: another agent has the lock, or this is a different machine than
            before.
        """
        if self._hostname not in (None, found.hostname):
            raise IdentityError(
                f"the hypervisor was {self._hostname} and is {found.hostname} now: if that is"
                " intended, start again"
            )
        if found.host_uuid and found.host_uuid not in self._locks:
            self._lock(found.host_uuid)
        self._hostname = found.hostname

    def drop(self) -> None:
        """Release the locks."""
        while self._locks:
            self._locks.popitem()[1].drop()

    def _lock(self, host_uuid: str) -> None:
        lock = FileLock(
            Path(self._lock_path, f"rtagent-{host_uuid}.lock"),
            f"Stop that one: the hypervisor {host_uuid} has an agent already",
        )
        lock.take()
        if self._locks:
            self._reporter.log(
                "warning",
                f"libvirt reports another host uuid than before, {host_uuid}: set host_uuid in"
                " libvirtd.conf, so that it stays the same",
            )
        self._locks[host_uuid] = lock
