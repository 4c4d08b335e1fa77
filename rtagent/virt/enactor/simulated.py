"""Guests on a simulated host: its file is edited, so that every process sees the change."""

from collections.abc import Callable, Collection
from pathlib import Path

from rtagent.errors import HypervisorUnavailable
from rtagent.model.guest import GuestDomain, GuestState
from rtagent.virt.enactor.document import claim_of, device_name, domain_document, mdev_names
from rtagent.virt.enactor.hosts import Check, OrderRefused, check_claim
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

    def state(self, server_uuid: str, claims: Collection[str] | None = None) -> GuestState:
        """Return whether the domain is absent, stopped or running. :param claims: None: of any."""
        world = self._read()
        document = world.domain(server_uuid)
        if document is None:
            return "absent"
        if claims is not None:
            check_claim(claim_of(document), claims)
        return "running" if world.is_active(server_uuid) else "stopped"

    def define(self, domain: GuestDomain, check: Check, replaced: Collection[str]) -> None:
        """Define the domain, or replace its definition. :raises BadDocument:"""
        document = domain_document(domain, _TYPE, _ARCHITECTURE)
        claims = (domain.claim.uuid, *replaced)
        self._change(domain.uuid, claims, check, lambda world, _: world.put_domain(document))

    def start(self, domain: GuestDomain, check: Check) -> None:
        """Add the mediated devices that are missing, and start the domain."""

        def change(world: World, document: str | None) -> None:
            if document is None:
                raise OrderRefused("it is not defined")
            _add_devices(world, domain)
            world.set_active(domain.uuid, True)

        self._change(domain.uuid, (domain.claim.uuid,), check, change)

    def stop(self, server_uuid: str, claims: Collection[str], check: Check) -> None:
        """Switch the domain off."""

        def change(world: World, document: str | None) -> None:
            if document is not None:
                world.set_active(server_uuid, False)

        self._change(server_uuid, claims, check, change)

    def undefine(self, server_uuid: str, claims: Collection[str], check: Check) -> None:
        """Remove the domain and its mediated devices."""

        def change(world: World, document: str | None) -> None:
            if document is not None:
                mdevs = mdev_names(document)
                for name in world.device_names:
                    if name.startswith(mdevs):
                        world.remove_device(name)
                world.remove_domain(server_uuid)

        self._change(server_uuid, claims, check, change)

    def _read(self) -> World:
        self._check_file()
        return read(self._file)

    def _change(
        self,
        server_uuid: str,
        claims: Collection[str],
        check: Check,
        change: Callable[[World, str | None], object],
    ) -> None:
        """Make a change, if the domain is absent or of one of the claims.

        Nobody else changes the host from the check until the change is made: a process that stands
        still in between keeps the lock.
        """
        self._check_file()
        with edit(self._file) as world:
            document = world.domain(server_uuid)
            if document is not None:
                check_claim(claim_of(document), claims)
            check()
            change(world, document)

    def _check_file(self) -> None:
        if not self._file.exists():
            raise HypervisorUnavailable(f"{self._file}: there is no such simulated host")


def _add_devices(world: World, domain: GuestDomain) -> None:
    for document in domain.node_devices:
        if device_name(document) not in world.device_names:
            world.add_device(document)
