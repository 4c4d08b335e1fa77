"""Guests on a simulated host: its file is edited, so that every process sees the change."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rtagent.errors import HypervisorUnavailable
from rtagent.model.guest_domain import GuestDomain, GuestState
from rtagent.virt.enactor.document import domain_document, mdev_uuids
from rtagent.virt.enactor.hosts import Refused
from rtagent.virt.libvirt.document import parse, text
from rtagent.virt.simulate.file import edit, read
from rtagent.virt.simulate.world import World

_TYPE, _ARCHITECTURE = "test", "x86_64"


class SimulatedHost:
    """The methods of `LibvirtHost`, on a host file.

    libvirt's test driver has one definition of a domain, so that of a running domain changes at
    once. A simulated guest never shuts down by itself.
    """

    def __init__(self, file: Path) -> None:
        self._file = file

    def state(self, server_uuid: str) -> GuestState:
        """Return whether the domain is absent, stopped or running."""
        active = self._read().is_active(server_uuid)
        if active is None:
            return "absent"
        return "running" if active else "stopped"

    def define(self, domain: GuestDomain) -> None:
        """Define the domain, or replace its definition. :raises BadDocument:"""
        document = domain_document(domain, _TYPE, _ARCHITECTURE)
        self._change(lambda world: world.put_domain(document))

    def start(self, domain: GuestDomain) -> None:
        """Add the mediated devices that are missing, and start the domain."""

        def change(world: World) -> None:
            _add_devices(world, domain)
            if world.is_active(domain.uuid) is None:
                raise Refused("it is not defined")
            world.set_active(domain.uuid, True)

        self._change(change)

    def stop(self, server_uuid: str) -> None:
        """Switch the domain off."""

        def change(world: World) -> None:
            if world.is_active(server_uuid):
                world.set_active(server_uuid, False)

        self._change(change)

    def undefine(self, server_uuid: str) -> None:
        """Remove the domain and its mediated devices."""

        def change(world: World) -> None:
            document = world.domain(server_uuid)
            if document is not None:
                for name in _mdevs_of(world, document):
                    world.remove_device(name)
                world.remove_domain(server_uuid)

        self._change(change)

    def arrive(self, domain: GuestDomain) -> None:
        """Run a domain that migrates to this host."""
        self.define(domain)
        self.start(domain)

    def _read(self) -> World:
        self._check()
        return read(self._file)

    def _change(self, change: Callable[[World], object]) -> None:
        self._check()
        with edit(self._file) as world:
            change(world)

    def _check(self) -> None:
        if not self._file.exists():
            raise HypervisorUnavailable(f"{self._file}: there is no such simulated host")


def _add_devices(world: World, domain: GuestDomain) -> None:
    for document in domain.node_devices:
        if text(parse(document), "name") not in world.device_names:
            world.add_device(document)


def _mdevs_of(world: World, document: str) -> list[str]:
    uuids = mdev_uuids(document)
    prefixes = tuple(f"mdev_{each.replace('-', '_')}" for each in uuids)
    return [name for name in world.device_names if name.startswith(prefixes)] if prefixes else []
