"""The file system with the guests' disks."""

from __future__ import annotations

import os
from collections.abc import Callable

import libvirt

from rtagent.model.base import Value
from rtagent.virt.libvirt.late_call import LateCall


class FileSystem(Value, frozen=True, kw_only=True):
    """:ivar total: bytes. :ivar free: bytes that an unprivileged user may still write."""

    total: int
    free: int


#: Returns the size of the file system of a path. May raise OSError and may hang.
Probe = Callable[[str], FileSystem]


def probe(path: str) -> FileSystem:
    """Read the size with statvfs(3)."""
    status = os.statvfs(path)
    return FileSystem(
        total=status.f_blocks * status.f_frsize, free=status.f_bavail * status.f_frsize
    )


def growth(domain: libvirt.virDomain, path: str) -> int:
    """Return the bytes by which a domain's disk file may still grow: its virtual size less its
    allocated blocks (libvirt's own statistics count holes as allocated). A missing file counts as
    0, because its domain cannot run.

    :raises libvirt.libvirtError: OSError:
    """
    try:
        occupied = os.stat(path).st_blocks * 512  # st_blocks is always in units of 512 bytes
    except FileNotFoundError:
        return 0
    capacity: int = domain.blockInfo(path)[0]
    return max(0, capacity - occupied)


class Storage:
    """The file system of `path`, read by a probe that may hang (a lost network file system).

    :param timeout: seconds. While one probe hangs no other is started; its late result is used.
    """

    def __init__(self, path: str, timeout: float, probe: Probe = probe) -> None:
        self.path = path
        self._prefix = os.path.join(os.path.normpath(path), "")
        self._probe = probe
        self._sizes = LateCall[FileSystem](timeout)

    def size(self) -> FileSystem:
        """Return the size.

        :raises OSError: it cannot be read; its subclass `TimeoutError`: the probe hangs.
        """
        return self._sizes.get(lambda: self._probe(self.path))

    def contains(self, file: str) -> bool:
        """Return whether a file is in the directory."""
        return file.startswith(self._prefix)
