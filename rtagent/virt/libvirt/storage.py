"""The file system that holds the guests' disks."""

from __future__ import annotations

import os
from collections.abc import Callable

import libvirt

from rtagent.model.base import Value
from rtagent.virt.libvirt.worker import Workers

MIB = 1024**2
GIB = 1024**3


class FileSystem(Value, frozen=True, kw_only=True):
    """:ivar total: bytes. :ivar free: bytes that an ordinary user may still write."""

    total: int
    free: int


#: A file system's size, by a path in it. Raises OSError; may hang as long as it likes.
Probe = Callable[[str], FileSystem]


def probe(path: str) -> FileSystem:
    """Asks the kernel."""
    status = os.statvfs(path)
    return FileSystem(
        total=status.f_blocks * status.f_frsize, free=status.f_bavail * status.f_frsize
    )


def growth(domain: libvirt.virDomain, path: str) -> int:
    """Bytes by which a domain's disk file may still grow: what the guest sees, less what the file
    occupies (holes left out, which libvirt's own statistics count in). One that is missing grows
    by nothing: its domain cannot run.

    :raises libvirt.libvirtError: OSError:
    """
    try:
        occupied = os.stat(path).st_blocks * 512  # counted in these, whatever the block size
    except FileNotFoundError:
        return 0
    capacity, _, _ = domain.blockInfo(path)
    return max(0, capacity - occupied)


class Storage:
    """Where `path` is, seen through a probe that may hang (a network file system that is gone).

    :param timeout: seconds. While a probe hangs no other is sent after it.
    """

    def __init__(self, path: str, timeout: float, probe: Probe = probe) -> None:
        self.path = path
        self._prefix = os.path.join(os.path.normpath(path), "")
        self._probe = probe
        self._workers = Workers(timeout, limit=1)

    def size(self) -> FileSystem:
        """:raises OSError: the file system cannot say; `TimeoutError`, an OSError too: it hangs."""
        return self._workers.call(lambda: self._probe(self.path))

    def holds(self, file: str) -> bool:
        """Whether a file is in the directory."""
        return file.startswith(self._prefix)
