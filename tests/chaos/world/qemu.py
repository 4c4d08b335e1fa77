"""Domains of a host with its own libvirtd: processes of QEMU, without disks and networks."""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import libvirt
from lxml import etree

from tests.servers.libvirtd import Libvirtd

#: Seconds for which a hypervisor may be unreachable.
LONGEST_OUTAGE = 120.0


class NamedLibvirtd(Libvirtd):
    """A libvirtd on a machine with a name of its own, whose size does not change.

    A virtual machine may get and lose memory at any time, which no observer could read everywhere
    at once.
    """

    def __init__(self, hostname: str) -> None:
        super().__init__()
        self._hostname = hostname

    def command(self) -> Sequence[str]:
        unshare, *options, script = super().command()
        steps = [f"hostname {self._hostname}"]
        for number, file in enumerate(_sizes()):
            copy = self.directory / f"size-{number}"
            if not copy.exists():
                copy.write_text(file.read_text())
            steps.append(f"mount --bind '{copy}' {file}")
        return [unshare, "--uts", *options, " && ".join([*steps, script])]


def _sizes() -> list[Path]:
    """Return the files from which libvirt reads the size of the memory."""
    nodes = Path("/sys/devices/system/node").glob("node*/meminfo")
    return [Path("/proc/meminfo"), *sorted(nodes)]


class Qemu:
    """The domains of a host. Thread-safe. Everything is idempotent, and waits for libvirtd."""

    def __init__(self, uri: str, outage: float = LONGEST_OUTAGE) -> None:
        """:param outage: seconds for which libvirtd may be unreachable."""
        self._uri, self._outage = uri, outage
        libvirt.registerErrorHandler(lambda *_: None, None)  # the default one prints

    def run(self, uuid: str, document: str) -> None:
        """Define and start a domain, in place of one with the same uuid.

        Its CPUs stand still: a firmware that finds nothing to boot would take all their time.
        """

        def replace(connection: libvirt.virConnect) -> None:
            _remove(connection, uuid)
            connection.defineXML(document).createWithFlags(libvirt.VIR_DOMAIN_START_PAUSED)

        self._attempt(replace)

    def remove(self, uuid: str) -> None:
        """Stop and undefine a domain."""
        self._attempt(lambda connection: _remove(connection, uuid))

    def documents(self) -> list[tuple[etree._Element, bool]]:
        """Return the document of each domain, and whether it is active."""
        return self._attempt(
            lambda connection: [
                (etree.fromstring(each.XMLDesc()), bool(each.isActive()))
                for each in connection.listAllDomains()
            ]
        )

    def runs(self, uuid: str) -> bool:
        """Return whether a domain is active."""
        return any(active and each.findtext("uuid") == uuid for each, active in self.documents())

    def _attempt(self, action: Callable[[libvirt.virConnect], Any]) -> Any:
        """Call until libvirtd answers. :raises libvirt.libvirtError: it still does not."""
        deadline = time.monotonic() + self._outage
        while True:
            try:
                with _connected(self._uri) as connection:
                    return action(connection)
            except libvirt.libvirtError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)


@contextlib.contextmanager
def _connected(uri: str) -> Iterator[libvirt.virConnect]:
    connection = libvirt.open(uri)
    try:
        yield connection
    finally:
        with contextlib.suppress(libvirt.libvirtError):
            connection.close()


def _remove(connection: libvirt.virConnect, uuid: str) -> None:
    for domain in connection.listAllDomains():
        if domain.UUIDString() == uuid:
            if domain.isActive():
                domain.destroy()
            if domain.isPersistent():
                domain.undefine()
