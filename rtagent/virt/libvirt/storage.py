"""Storage of the host: the file system with the guests' disks, and persistent memory namespaces,
which the command ndctl lists.
"""

import os
import re
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import libvirt
import msgspec
from oslo_concurrency import processutils

from rtagent.model.assignment import PmemNamespace
from rtagent.model.base import Value
from rtagent.model.observation import Problem
from rtagent.model.units import BYTES_IN_KIB
from rtagent.ports import PersistentMemory, PmemUnavailable
from rtagent.virt.libvirt.connection import Session
from rtagent.virt.libvirt.document import BadDocument
from rtagent.virt.libvirt.hostfile import simulated_namespaces
from rtagent.virt.libvirt.workers import LateCall

COMMAND = "ndctl"
#: Seconds that the command may take.
TIMEOUT = 10
_DEVDAX = "devdax"
_DAX = re.compile(r"dax[0-9]{1,9}\.[0-9]{1,9}")


class _Device(Value, frozen=True, kw_only=True):
    chardev: str = ""
    mode: str = _DEVDAX


class _Region(Value, frozen=True, kw_only=True):
    align: int = 0
    devices: tuple[_Device, ...] = ()


class _Namespace(Value, frozen=True, kw_only=True):
    """A namespace in the output of ``ndctl list -X``, with sizes in bytes."""

    name: str = ""
    mode: str = ""
    size: int = 0
    daxregion: _Region | None = None


_decode = msgspec.json.Decoder(_Namespace | tuple[_Namespace, ...]).decode


def parse_namespaces(listed: str | bytes) -> tuple[PmemNamespace, ...]:
    """Parse the output of ``ndctl list -X``: the namespaces that a guest can use.

    These are in mode ``devdax``, have one device, and a name that no other namespace has.

    :raises PmemUnavailable: it is not the output of ndctl.
    """
    if not listed.strip():
        return ()  # there are none
    try:
        found = _decode(listed)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise PmemUnavailable(f"{COMMAND} list -X: {error}") from error
    every = found if isinstance(found, tuple) else (found,)
    named = Counter(each.name for each in every)
    return tuple(usable for each in every if named[each.name] == 1 for usable in _usable(each))


def _usable(found: _Namespace) -> Iterator[PmemNamespace]:
    region = found.daxregion
    if not found.name or found.mode != _DEVDAX or region is None or len(region.devices) != 1:
        return
    (device,) = region.devices
    size, align = found.size // BYTES_IN_KIB, region.align // BYTES_IN_KIB
    if device.mode == _DEVDAX and _DAX.fullmatch(device.chardev) and size > 0 and align > 0:
        yield PmemNamespace(
            name=found.name, path=f"/dev/{device.chardev}", size_kb=size, align_kb=align
        )


class Ndctl:
    """Lists namespaces with the command ndctl. A host without it has none.

    :ivar installed: whether the command can be run.
    """

    def __init__(self, command: str = COMMAND, timeout: int = TIMEOUT) -> None:
        """:param timeout: seconds that the command may take."""
        self._command, self._timeout = command, timeout

    @property
    def installed(self) -> bool:
        return shutil.which(self._command) is not None

    def namespaces(self) -> Sequence[PmemNamespace]:
        if not self.installed:
            return ()
        try:
            listed, _ = processutils.execute(self._command, "list", "-X", timeout=self._timeout)
        except subprocess.TimeoutExpired as error:
            message = f"{COMMAND} list -X did not end within {self._timeout} s"
            raise PmemUnavailable(message) from error
        except (processutils.ProcessExecutionError, OSError) as error:
            raise PmemUnavailable(f"{COMMAND} list -X failed: {error}") from error
        return parse_namespaces(listed)


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
