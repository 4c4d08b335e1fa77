"""The host's persistent memory namespaces, from the command ndctl."""

import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec
from oslo_concurrency import processutils

from rtagent.model.assignment import PmemNamespace
from rtagent.model.base import Value
from rtagent.model.units import BYTES_IN_KIB
from rtagent.ports import PmemUnavailable

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
