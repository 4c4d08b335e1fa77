"""Storage of the host: the file system with the guests' disks, and persistent memory namespaces."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import libvirt

from rtagent.model.assignment import PmemNamespace
from rtagent.model.base import Value
from rtagent.model.observation import Problem
from rtagent.ports import PersistentMemory, PmemUnavailable
from rtagent.virt.libvirt.connection import Session
from rtagent.virt.libvirt.document import BadDocument
from rtagent.virt.libvirt.hostfile import simulated_namespaces
from rtagent.virt.libvirt.workers import LateCall
from rtagent.virt.ndctl import parse_namespaces

#: Seconds for which a list, or a failure to get one, is used again: namespaces change rarely, an
#: event of a domain causes an observation at once, and a hanging command delays each one.
AGE = 60.0


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


class Namespaces:
    """Caches the list. Call `look` on one thread at a time.

    :ivar listed: as last listed; None: they could never be listed.
    """

    def __init__(self, source: PersistentMemory | None) -> None:
        """:param source: None: the host has no persistent memory."""
        self._source = source
        self._session: Session | None = None
        self._read_at = 0.0
        self._problems: tuple[Problem, ...] = ()
        self.listed: tuple[PmemNamespace, ...] | None = None

    def look(self, session: Session, file: Path | None) -> tuple[Problem, ...]:
        """List the namespaces, if the list is old or of another session.

        :param file: the host file of a simulated host, which describes its namespaces.
        """
        if session is self._session and time.monotonic() < self._read_at + AGE:
            return self._problems
        try:
            self.listed, self._problems = tuple(self._list(file)), ()
        except (PmemUnavailable, BadDocument) as error:
            self._problems = (Problem(item="persistent memory", message=str(error)),)
        self._session, self._read_at = session, time.monotonic()
        return self._problems

    @property
    def names(self) -> Mapping[str, str] | None:
        """The name of each namespace, by the path of its device; None: as `listed`."""
        return None if self.listed is None else {each.path: each.name for each in self.listed}

    def _list(self, file: Path | None) -> Sequence[PmemNamespace]:
        if file is not None:
            return parse_namespaces(simulated_namespaces(file))
        return () if self._source is None else self._source.namespaces()
