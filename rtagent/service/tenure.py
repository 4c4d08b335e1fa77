"""Tenure: our hold on the hypervisor, from the first connection to the last."""

from __future__ import annotations

from rtagent import locks
from rtagent.errors import IdentityError
from rtagent.ports import HostIdentity, Reporter


class Tenure:
    """Keeps other agents off the hypervisor, and ours from serving another one.

    A machine whose firmware has no uuid gets a new one from libvirt at each of libvirt's starts:
    there is a lock for each uuid by which the host was known.
    """

    def __init__(self, lock_path: str, reporter: Reporter) -> None:
        self._lock_path, self._reporter = lock_path, reporter
        self._hostname: str | None = None
        self._locks: dict[str, locks.FileLock] = {}

    def take(self, found: HostIdentity) -> None:
        """To be told of who answers, at each connection.

        :raises IdentityError: another agent has it, or it is another machine than before.
        """
        if self._hostname not in (None, found.hostname):
            raise IdentityError(
                f"the hypervisor was {self._hostname} and is {found.hostname} now: if that is"
                " right, start again"
            )
        if found.host_uuid and found.host_uuid not in self._locks:
            lock = locks.hypervisor(self._lock_path, found.host_uuid)
            lock.take()
            if self._locks:
                self._reporter.said(
                    "warning",
                    f"libvirt says that the host's uuid is {found.host_uuid} now: set host_uuid in"
                    " libvirtd.conf, so that it stays the same",
                )
            self._locks[found.host_uuid] = lock
        self._hostname = found.hostname

    def drop(self) -> None:
        """Let the next one in."""
        while self._locks:
            self._locks.popitem()[1].drop()
