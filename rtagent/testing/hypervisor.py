"""A hypervisor in memory. A test can change it during an audit."""

from collections.abc import Callable

from msgspec.structs import replace

from rtagent.errors import HypervisorUnavailable
from rtagent.model.assignment import PmemNamespace
from rtagent.model.device import NO_ROOT_PORTS, Device, Mdev
from rtagent.model.domain_usage import EVERY_KIND, DomainUsage, Occupancy
from rtagent.model.guest import DomainDocument, GuestCell, GuestLayout
from rtagent.model.metric import CpuUse
from rtagent.model.observation import Domain, Observation, Problem
from rtagent.model.topology import Topology
from rtagent.ports import HostIdentity

TOPOLOGY = Topology(
    cpus=frozenset(range(16)),
    memory_mb=64 * 1024,
    disk_mb=1024 * 1024,
    hypervisor_type="fake",
    hypervisor_version=1_000_000,
)

_UNLISTED = Problem(item="node devices", message="listing failed")


def _do_nothing(step: str) -> None:
    """Do nothing."""


class FakeHypervisor:
    """A `Hypervisor` whose domains and devices are dicts.

    :ivar domains: by uuid; change them by the methods or as a dict.
    :ivar layouts: by uuid: of the domains that are bound to CPUs or cells; see `guest`.
    :ivar devices: PCI devices by address; `mdevs` by uuid. Change them likewise.
    :ivar root_ports: what observations report with the devices.
    :ivar namespaces: persistent memory namespaces by name; change them as a dict.
    :ivar unlisted: while True, observations report that listing devices failed.
    :ivar topology: None: observations report that the host could not be read.
    :ivar cpus: what `cpu_use` returns.
    :ivar lost: while True every call raises `HypervisorUnavailable`, during `observe` too.
    :ivar unreadable: uuids of domains whose read fails; each is present without sizes, and a
        `Problem`.
    :ivar incomplete: while True, observations report that the connection was interrupted.
    :ivar documents: what `document` returns, by uuid.
    :ivar between: called with the name of each step of `observe` just before the step:
        ``devices``, ``list``, ``read <uuid>`` for each listed domain in order, and ``finish``.
        Its changes are visible to the following steps. A domain destroyed after the listing counts
        as present without sizes.
    """

    def __init__(
        self,
        topology: Topology | None = TOPOLOGY,
        *,
        hostname: str = "fake-host",
        host_uuid: str = "",
        between: Callable[[str], None] = _do_nothing,
    ) -> None:
        self.topology = topology
        self.hostname = hostname
        self.host_uuid = host_uuid
        self.between = between
        self.domains: dict[str, Domain] = {}
        self.layouts: dict[str, GuestLayout] = {}
        self.devices: dict[str, Device] = {}
        self.mdevs: dict[str, Mdev] = {}
        self.root_ports = NO_ROOT_PORTS
        self.namespaces: dict[str, PmemNamespace] = {}
        self.disk_available_least: int | None = None
        self.documents: dict[str, DomainDocument] = {}
        self.cpus = CpuUse()
        self.unreadable: set[str] = set()
        self.lost = False
        self.incomplete = False
        self.unlisted = False
        self._on_event: Callable[[str], None] | None = None

    # The port

    def identity(self) -> HostIdentity:
        self._reach()
        return HostIdentity(hostname=self.hostname, host_uuid=self.host_uuid)

    def observe(self) -> Observation:
        self.between("devices")
        self._reach()
        devices, mdevs = tuple(self.devices.values()), tuple(self.mdevs.values())
        problems = [_UNLISTED] if self.unlisted else []
        self.between("list")
        self._reach()
        listed = dict(self.domains)
        seen = {}
        for uuid in sorted(listed):
            self.between(f"read {uuid}")
            self._reach()
            seen[uuid] = self._read(listed[uuid])
            if uuid in self.unreadable:
                problems.append(Problem(item=f"domain {uuid}", message="reading it failed"))
        self.between("finish")
        self._reach()
        return Observation(
            domains=seen,
            complete=not self.incomplete,
            topology=self.topology,
            devices=None if self.unlisted else devices,
            mdevs=mdevs,
            root_ports=NO_ROOT_PORTS if self.unlisted else self.root_ports,
            namespaces=tuple(self.namespaces.values()),
            disk_available_least=self.disk_available_least,
            problems=tuple(problems),
        )

    def document(self, uuid: str) -> DomainDocument | None:
        return self.documents.get(uuid)

    def cpu_use(self) -> CpuUse:
        self._reach()
        return self.cpus

    def guest(self, uuid: str) -> GuestLayout | None:
        self._reach()
        domain = self.domains.get(uuid)
        if domain is None:
            return None
        usage = domain.domain_usage()
        if usage is None or uuid in self.unreadable:
            usage = DomainUsage(
                domain_uuid=uuid, name=domain.name, active=domain.active, vcpus=0, memory_mb=0
            )
            return GuestLayout(usage=usage, problem="reading it failed")
        if uuid in self.layouts:
            return self.layouts[uuid]
        mdevs = {each: self.mdevs[each] for each in usage.occupancy.mdevs if each in self.mdevs}
        cell = GuestCell(vcpus=frozenset(range(usage.vcpus)), memory_mb=usage.memory_mb)
        return GuestLayout(usage=usage, cells=(cell,), mdevs=mdevs)

    def start(self, on_event: Callable[[str], None]) -> None:
        self._on_event = on_event

    def stop(self) -> None:
        self._on_event = None

    # Changes of the host; each emits an event as libvirt would

    def start_domain(
        self,
        uuid: str,
        vcpus: int,
        memory_mb: int,
        name: str | None = None,
        occupancy: Occupancy | None = None,
    ) -> None:
        """Create or start a domain with these sizes and this occupancy of the host."""
        self._put(uuid, name, True, vcpus, memory_mb, occupancy)

    def define(self, uuid: str, vcpus: int, memory_mb: int, name: str | None = None) -> None:
        """Define a domain without starting it."""
        self._put(uuid, name, False, vcpus, memory_mb)

    def shut_off(self, uuid: str) -> None:
        """Shut a domain off; it stays defined, and bound to what it has when it runs: `guest`."""
        self.domains[uuid] = replace(self.domains[uuid], active=False)
        self.announce("lifecycle")

    def destroy(self, uuid: str) -> None:
        """Destroy and undefine a domain."""
        del self.domains[uuid]
        self.announce("lifecycle")

    def plug(self, *devices: Device) -> None:
        """Add or replace devices."""
        self.devices.update((device.address, device) for device in devices)
        self.announce("device")

    def unplug(self, *addresses: str) -> None:
        """Remove devices."""
        for address in addresses:
            del self.devices[address]
        self.announce("device")

    def create_mdev(self, uuid: str, type_: str, parent_addr: str) -> None:
        """Create a mediated device."""
        self.mdevs[uuid] = Mdev(uuid=uuid, type=type_, parent_addr=parent_addr)
        self.announce("device")

    def destroy_mdev(self, uuid: str) -> None:
        """Remove a mediated device."""
        del self.mdevs[uuid]
        self.announce("device")

    def announce(self, word: str) -> None:
        """Emit an event: ``lifecycle``, ``device``, ``connection`` or ``file``."""
        if self._on_event is not None:
            self._on_event(word)

    def _put(
        self,
        uuid: str,
        name: str | None,
        active: bool,
        vcpus: int,
        memory_mb: int,
        occupancy: Occupancy | None = None,
    ) -> None:
        self.domains[uuid] = Domain(
            uuid=uuid,
            name=name if name is not None else f"instance-{uuid[:8]}",
            active=active,
            vcpus=vcpus,
            memory_mb=memory_mb,
            occupancy=occupancy or Occupancy(),
        )
        self.announce("lifecycle")

    def _read(self, listed: Domain) -> Domain:
        """Return what is observed: a domain that is shut off occupies nothing."""
        now = self.domains.get(listed.uuid)
        if now is None:
            return replace(listed, vcpus=None, memory_mb=None, gone=True)
        if now.uuid in self.unreadable:
            occupancy = Occupancy(unknown=EVERY_KIND) if now.active else Occupancy()
            return replace(now, vcpus=None, memory_mb=None, occupancy=occupancy)
        return now if now.active else replace(now, occupancy=Occupancy())

    def _reach(self) -> None:
        if self.lost:
            raise HypervisorUnavailable("the connection to the fake hypervisor is lost")


__all__ = ["TOPOLOGY", "FakeHypervisor"]
