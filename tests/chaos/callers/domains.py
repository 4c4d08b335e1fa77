"""The domains of the hosts, which callers start and stop as a conductor does."""

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lxml import etree

from rtagent.virt.simulate import SimulationError, domain_xml, edit
from rtagent.virt.simulate import World as HostWorld
from tests.chaos.history import REMOVE, RUN, History
from tests.chaos.world.qemu import LONGEST_OUTAGE, Qemu
from tests.servers.libvirtd import domain_xml as qemu_xml
from tests.support.guests import enacting


class Domains:
    """Edits the files of simulated hosts, and calls libvirt on the others. Thread-safe.

    Everything is idempotent, and recorded.
    """

    def __init__(
        self, files: Mapping[str, Path], qemu: Mapping[str, Qemu], history: History
    ) -> None:
        """:param files: of simulated hosts, by host. :param qemu: the other hosts."""
        self._files, self._qemu, self._history = files, qemu, history

    def is_simulated(self, host: str) -> bool:
        return host not in self._qemu

    def start(self, host: str, claim: Mapping[str, Any], attached: Sequence[Any] = ()) -> None:
        """Run the domain of a claim, with the devices of these attach claims.

        :param claim: the reply of a call that created or activated it.
        """
        uuid, flavor = claim["owner_id"], claim["flavor"]
        document = self._document(host, uuid, flavor["vcpus"], flavor["memory_mb"])
        document = enacting(document, claim, *attached)
        if host in self._qemu:
            self._qemu[host].run(uuid, document)
        else:
            with self._edit(host) as world:
                _remove(world, uuid)
                for each in [claim, *attached]:
                    for device in each["node_devices"]:
                        _add_device(world, device)
                world.add_domain(document)
        self._history.domain(RUN, host, uuid, claim["uuid"])

    def stop(self, host: str, uuid: str) -> None:
        """Stop and remove a domain."""
        if host in self._qemu:
            self._qemu[host].remove(uuid)
        else:
            with self._edit(host) as world:
                _remove(world, uuid)
        self._history.domain(REMOVE, host, uuid)

    def start_foreign(self, host: str, uuid: str) -> None:
        """Run a domain that no claim stands for."""
        document = self._document(host, uuid, 1, 128)
        if host in self._qemu:
            self._qemu[host].run(uuid, document)
        else:
            with self._edit(host) as world:
                if world.domain(uuid) is None:
                    world.add_domain(document)
        self._history.domain(RUN, host, uuid)

    def _document(self, host: str, uuid: str, vcpus: int, memory_mb: int) -> str:
        if host in self._qemu:
            return qemu_xml(uuid, uuid, vcpus, memory_mb)
        return domain_xml(uuid, vcpus=vcpus, memory_mb=memory_mb)

    def plug(self, host: str, documents: Mapping[str, str]) -> None:
        """Add devices that are not there, to a simulated host."""
        with self._edit(host) as world:
            for name in documents.keys() - set(world.device_names):
                world.add_device(documents[name])

    def unplug(self, host: str, names: Sequence[str]) -> dict[str, str]:
        """Remove devices that are there, of a simulated host; return their documents by name."""
        taken: dict[str, str] = {}
        with self._edit(host) as world:
            for name in set(names) & set(world.device_names):
                taken[name] = _device_document(self._files[host], name)
                world.remove_device(name)
        return taken

    @contextlib.contextmanager
    def _edit(self, host: str) -> Iterator[HostWorld]:
        """Edit the file of a host, which may be away, or be no host, for a while."""
        deadline = time.monotonic() + LONGEST_OUTAGE
        with contextlib.ExitStack() as stack:
            while True:
                try:
                    world = stack.enter_context(edit(self._files[host]))
                    break
                except SimulationError:
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(0.2)
            yield world


def _device_document(file: Path, name: str) -> str:
    root = etree.parse(str(file)).getroot()
    (found,) = (each for each in root.iterfind("device") if each.findtext("name") == name)
    return etree.tostring(found, encoding="unicode")


def _add_device(world: HostWorld, document: str) -> None:
    """Add a mediated device, as libvirt does when it is created."""
    if etree.fromstring(document).findtext("name") not in world.device_names:
        world.add_device(document)


def _remove(world: HostWorld, uuid: str) -> None:
    """Remove a domain, and the mediated devices that it has."""
    document = world.domain(uuid)
    if document is None:
        return
    for address in etree.fromstring(document).iterfind("devices/hostdev/source/address[@uuid]"):
        prefix = f"mdev_{address.get('uuid', '').replace('-', '_')}"
        for name in world.device_names:
            if name.startswith(prefix):
                world.remove_device(name)
    world.remove_domain(uuid)
