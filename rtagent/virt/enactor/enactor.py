"""The `Enactor` port on libvirt, for real and for simulated hosts.

The file of a simulated host is edited, so that every process sees the change.
"""

import contextlib
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import libvirt

from rtagent.errors import ClaimMismatch, EnactmentFailed, HypervisorUnavailable
from rtagent.model.guest import GuestDomain, GuestState
from rtagent.virt.enactor.host import (
    Check,
    HostConnection,
    LibvirtHost,
    NotOfClaim,
    OrderRefused,
    check_claim,
    claim_of,
    device_name,
    domain_document,
    mdev_names,
    unchecked,
    uri_of,
)
from rtagent.virt.enactor.migration import LiveMigration
from rtagent.virt.libvirt.document import BadDocument
from rtagent.virt.libvirt.hostfile import host_file
from rtagent.virt.simulate.file import edit, read
from rtagent.virt.simulate.world import SimulationError, World

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


#: What means that a host refused.
_REFUSALS = (libvirt.libvirtError, BadDocument, SimulationError, OrderRefused)


class LibvirtEnactor:
    """Runs guests on hosts that libvirt reaches. Thread-safe.

    :param host_uri: the URI of a host, with ``{host}`` in the place of its name: for example
        ``qemu+ssh://{host}/system``, or ``test:///var/lib/cloud/{host}.xml`` for simulated hosts.
    :param call_timeout: seconds for one call of libvirt, such as the start of a domain.
    :param shutdown_timeout: seconds that a guest gets to shut down, before it is switched off.
    :param migration_timeout: seconds for a live migration, before it is aborted.
    :param migration_uri: a host as other hosts reach it, in a live migration; default: `host_uri`.
    :param virt_type: of domains without a document; default: KVM where the host has it, else
        QEMU.
    """

    def __init__(
        self,
        host_uri: str,
        *,
        call_timeout: float = 60.0,
        shutdown_timeout: float = 60.0,
        migration_timeout: float = 1800.0,
        migration_uri: str | None = None,
        virt_type: str | None = None,
    ) -> None:
        self._uri, self._migration_uri = host_uri, migration_uri or host_uri
        self._call_timeout, self._shutdown_timeout = call_timeout, shutdown_timeout
        self._migration_timeout = migration_timeout
        self._connections: dict[str, HostConnection] = {}
        self._virt_type = virt_type

    def state(self, host: str, server_uuid: str) -> GuestState:
        """See `rtagent.conductor.ports.Enactor`, as for all methods of its names."""
        with _refusals(host, server_uuid, "look at"):
            return self._host(host).state(server_uuid)

    def define(
        self,
        host: str,
        domain: GuestDomain,
        replaced: Collection[str] = (),
        check: Check = unchecked,
    ) -> None:
        with _refusals(host, domain.uuid, "define"):
            self._host(host).define(domain, check, replaced)

    def start(self, host: str, domain: GuestDomain, check: Check = unchecked) -> None:
        with _refusals(host, domain.uuid, "start"):
            self._host(host).start(domain, check)

    def stop(
        self, host: str, server_uuid: str, claims: Collection[str], check: Check = unchecked
    ) -> None:
        with _refusals(host, server_uuid, "stop"):
            self._host(host).stop(server_uuid, claims, check)

    def undefine(
        self, host: str, server_uuid: str, claims: Collection[str], check: Check = unchecked
    ) -> None:
        with _refusals(host, server_uuid, "undefine"):
            self._host(host).undefine(server_uuid, claims, check)

    def live_migrate(
        self,
        source: str,
        dest: str,
        domain: GuestDomain,
        claims: Collection[str],
        check: Check = unchecked,
    ) -> None:
        with _refusals(source, domain.uuid, "migrate"):
            here, there = self._host(source), self._host(dest)
            if isinstance(here, SimulatedHost) and isinstance(there, SimulatedHost):
                _migrate_simulated(here, there, domain, claims, check)
            elif isinstance(here, LibvirtHost) and isinstance(there, LibvirtHost):
                uri = uri_of(self._migration_uri, dest)
                LiveMigration(here, there, uri, self._migration_timeout).run(domain, claims, check)
            else:
                raise OrderRefused(f"{source} and {dest} are not both simulated")

    def close(self) -> None:
        """Close the connections."""
        for connection in list(self._connections.values()):
            connection.close()

    def _host(self, name: str) -> LibvirtHost | SimulatedHost:
        uri = uri_of(self._uri, name)
        file = host_file(uri)
        if file is not None:
            return SimulatedHost(file)
        connection = self._connections.setdefault(uri, HostConnection(uri, self._call_timeout))
        return LibvirtHost(connection, self._shutdown_timeout, self._virt_type)


def _migrate_simulated(
    source: SimulatedHost,
    dest: SimulatedHost,
    domain: GuestDomain,
    claims: Collection[str],
    check: Check,
) -> None:
    if source.state(domain.uuid, claims) == "running":
        dest.define(domain, check, ())
        dest.start(domain, check)
    elif dest.state(domain.uuid, (domain.claim.uuid,)) != "running":
        raise OrderRefused("it runs neither at the source nor at the destination")
    source.undefine(domain.uuid, claims, check)


@contextlib.contextmanager
def _refusals(host: str, server_uuid: str, action: str) -> Iterator[None]:
    """Give a refusal its type. :raises EnactmentFailed:"""
    try:
        yield
    except _REFUSALS as error:
        kind = ClaimMismatch if isinstance(error, NotOfClaim) else EnactmentFailed
        raise kind(host=host, server_uuid=server_uuid, action=action, why=str(error)) from error
