"""The `Hypervisor` port on libvirt."""

from collections.abc import Callable
from contextlib import ExitStack

import libvirt
import msgspec

from rtagent.errors import HypervisorUnavailable
from rtagent.model.domain_usage import DomainUsage
from rtagent.model.guest import DomainDocument, GuestLayout
from rtagent.model.metric import CpuUse
from rtagent.model.observation import Observation, Problem
from rtagent.model.topology import Topology
from rtagent.model.units import BYTES_IN_GIB, BYTES_IN_MIB
from rtagent.ports import HostIdentity, PersistentMemory, Reporter
from rtagent.virt.libvirt.connection import (
    REOPEN,
    LibvirtConnection,
    Session,
    broken,
    caused,
    optional,
)
from rtagent.virt.libvirt.document import BadDocument, HostFacts, received
from rtagent.virt.libvirt.domains import ROUND, Domains
from rtagent.virt.libvirt.events import repeat
from rtagent.virt.libvirt.guest_layout import parse_layout
from rtagent.virt.libvirt.host import HostRead, check, read_host
from rtagent.virt.libvirt.hostfile import INTERVAL
from rtagent.virt.libvirt.node_devices import DeviceLook, NodeDevices
from rtagent.virt.libvirt.storage import FileSystem, Namespaces, Probe, Storage, probe
from rtagent.virt.libvirt.workers import CallWorkers, LateCall

#: The place of the frequency in MHz in the list of `virNodeGetInfo`.
_FREQUENCY = 3


def _ignore_event(word: str) -> None:
    """Ignore events until `start` is called."""


class LibvirtHypervisor:
    """A `Hypervisor` behind any libvirt URI (QEMU's, or ``test://`` for a simulated host).

    :param instances_path: the directory of the guests' disks.
    :param call_timeout: seconds for each call; a call that takes longer fails only its own item.
    :param probe: returns the size of the file system of a path.
    :param pmem: lists the persistent memory of a host that is not simulated; None: it has none.

    Call `observe` on one thread at a time, the other methods on any.
    """

    def __init__(
        self,
        uri: str,
        instances_path: str,
        *,
        call_timeout: float = 5.0,
        reporter: Reporter | None = None,
        probe: Probe = probe,
        pmem: PersistentMemory | None = None,
    ) -> None:
        self._workers = CallWorkers(call_timeout)
        self._storage = Storage(instances_path, call_timeout, probe)
        self._domains = Domains(self._workers, self._storage)
        self._namespaces = Namespaces(pmem)
        self._connection = LibvirtConnection(
            uri, self._workers, reporter, self._on_lost, self._on_domain
        )
        # Another daemon may serve node devices, behind the one of the domains (virtnodedevd behind
        # virtqemud), which never connects to it again on behalf of the same connection. So they
        # have a connection of their own, whose loss concerns them alone, and threads of their own.
        self._device_workers = CallWorkers(call_timeout)
        self._devices = NodeDevices(self._device_workers)
        self._device_connection = LibvirtConnection(uri, self._device_workers)
        self._watch = ExitStack()
        self._on_event: Callable[[str], None] = _ignore_event
        self._hosts = LateCall[HostRead](call_timeout, REOPEN)
        self._reading: Session | None = None
        self._host: tuple[Session, HostRead] | None = None
        self._host_is_due, self._observations = True, 0
        self._disk_mb: int | None = None

    def identity(self) -> HostIdentity:
        session = self._connection.session()
        with self._connection.using(session):
            try:
                return self._read_host(session).identity
            except BadDocument as error:
                raise HypervisorUnavailable(f"the host's capabilities: {error}") from error

    def observe(self) -> Observation:
        session = self._connection.session()
        problems: list[Problem] = []
        self._observations += 1
        self._host_is_due |= self._observations % ROUND == 0
        with self._connection.using(session):
            host = self._try_host(session, problems)
            size = self._try_size(problems)
            found = self._try_devices(session)
            problems += self._namespaces.look(session, self._connection.file)
            seen = self._domains.look(session, self._facts())
        return Observation(
            domains=seen.domains,
            complete=not session.lost,
            topology=self._topology(host),
            devices=found.devices,
            mdevs=found.mdevs,
            root_ports=found.root_ports,
            namespaces=self._namespaces.listed,
            disk_available_least=(size.free - seen.growth) // BYTES_IN_GIB
            if size is not None
            else None,
            problems=(*problems, *found.problems, *seen.problems),
        )

    def document(self, uuid: str) -> DomainDocument | None:
        return self._domains.documents.get(uuid)

    def cpu_use(self) -> CpuUse:
        session = self._connection.session()
        with self._connection.using(session):
            try:
                return self._workers.call(lambda: read_cpu_use(session))
            except TimeoutError:
                # Raises TimeoutError if libvirt as a whole hangs.
                self._workers.call(session.virt.getLibVersion)
                return CpuUse()

    def guest(self, uuid: str) -> GuestLayout | None:
        session = self._connection.session()
        with self._connection.using(session):
            return read_guest(session, self._workers, uuid, self._facts())

    def start(self, on_event: Callable[[str], None]) -> None:
        self._on_event = on_event
        if self._connection.file is not None:
            self._watch.callback(repeat(INTERVAL, self._connection.check_file))

    def stop(self) -> None:
        self._on_event = _ignore_event
        self._watch.close()
        self._connection.close(self._workers.timeout)
        self._device_connection.close(self._device_workers.timeout)

    def _read_host(self, session: Session) -> HostRead:
        """Read the host once per session, again when its cheap values differ, and at every
        `ROUND`th observation, because huge pages, for instance, are not among these values.

        :raises HypervisorUnavailable: it takes longer than the time-out of a call, as when libvirt
            has just been started and examines its emulators. The next call continues to wait.
        """
        if self._host is not None and self._host[0] is session and not self._host_is_due:
            host = self._host[1]
            if self._workers.call(lambda: check(session)) == host.checked:
                return host
        if self._reading is not session:
            self._hosts.forget()  # a result or an error of a session that was lost
            self._reading = session
        try:
            host = self._hosts.get(lambda: read_host(session, self._connection.file))
        except TimeoutError as error:
            # Raises TimeoutError if libvirt as a whole hangs.
            self._workers.call(session.virt.getLibVersion)
            raise HypervisorUnavailable(f"the host's capabilities: {error}") from error
        self._host, self._host_is_due = (session, host), False
        return host

    def _try_host(self, session: Session, problems: list[Problem]) -> HostRead | None:
        try:
            host = self._read_host(session)
            problems += host.odd
            return host
        except BadDocument as error:
            problems.append(Problem(item="host capabilities", message=str(error)))
        except HypervisorUnavailable as error:
            problems.append(Problem(item="host", message=error.message))
        except libvirt.libvirtError as error:
            if broken(session, error):
                raise
            problems.append(Problem(item="host", message=str(error)))
        return None

    def _try_devices(self, domains: Session) -> DeviceLook:
        try:
            if self._connection.file is not None:
                # No daemon is behind it, and it takes long to open a large one again.
                return self._look_at_devices(domains)
            try:
                return self._look_through_own_connection()
            except HypervisorUnavailable:  # of a daemon that was restarted since the last look
                return self._look_through_own_connection()
        except (HypervisorUnavailable, libvirt.libvirtError, TimeoutError) as error:
            return self._devices.unlisted(str(error))

    def _look_through_own_connection(self) -> DeviceLook:
        session = self._device_connection.session()
        with self._device_connection.using(session):
            return self._look_at_devices(session)

    def _look_at_devices(self, session: Session) -> DeviceLook:
        self._device_workers.call(lambda: session.watch_devices(self._on_device))
        return self._devices.look(session)

    def _try_size(self, problems: list[Problem]) -> FileSystem | None:
        try:
            size = self._storage.size()
        except OSError as error:
            problems.append(Problem(item=f"storage {self._storage.path}", message=str(error)))
            return None
        self._disk_mb = size.total // BYTES_IN_MIB
        return size

    def _topology(self, host: HostRead | None) -> Topology | None:
        """Add the last disk size that was read, so that a hanging file system does not
        make it 0.
        """
        if host is None or self._disk_mb is None:
            return None
        return msgspec.structs.replace(host.topology, disk_mb=self._disk_mb)

    def _facts(self) -> HostFacts:
        """Return what was last read of the host."""
        host = None if self._host is None else self._host[1]
        return HostFacts(
            online=frozenset() if host is None else host.topology.cpus,
            cells=() if host is None else host.topology.cells,
            hugepage_kib=None if host is None else host.hugepage_kib,
            vdpas=self._devices.vdpas,
            interfaces=self._devices.interfaces,
            namespaces=self._namespaces.names,
            mdevs=self._devices.mdevs,
            other_mdevs=self._devices.other_mdevs,
        )

    def _on_domain(self, uuid: str, word: str) -> None:
        self._domains.mark(uuid)
        if word:
            self._on_event(word)

    def _on_device(self, name: str) -> None:
        self._devices.mark(name)
        self._on_event("device")

    def _on_lost(self, word: str) -> None:
        self._on_event(word)


def read_guest(
    session: Session, workers: CallWorkers, uuid: str, host: HostFacts
) -> GuestLayout | None:
    """Return the layout of a domain; None: there is no such domain.

    :raises libvirt.libvirtError: TimeoutError: the session is unusable.
    """
    try:
        domain = workers.call(lambda: caused(lambda: session.virt.lookupByUUIDString(uuid)))
        name, active = domain.name(), bool(workers.call(lambda: caused(domain.isActive)))
    except libvirt.libvirtError as error:
        if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
            return None
        raise
    usage = DomainUsage(domain_uuid=uuid, name=name, active=active, vcpus=0, memory_mb=0)
    try:
        document = workers.call(lambda: caused(lambda: received(lambda: domain.XMLDesc(0))))
    except BadDocument as error:
        return GuestLayout(usage=usage, problem=str(error))
    except TimeoutError:
        # Raises TimeoutError if libvirt as a whole hangs, not only this domain.
        workers.call(session.virt.getLibVersion)
        return GuestLayout(usage=usage, problem="libvirt does not return its document in time")
    except libvirt.libvirtError as error:
        if broken(session, error):
            raise
        if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
            return None
        return GuestLayout(usage=usage, problem=str(error))
    return parse_layout(document, usage, host)


def read_cpu_use(session: Session) -> CpuUse:
    """Return what the driver reports of all CPUs together. Not every driver has the times, and not
    every platform has a frequency.

    :raises libvirt.libvirtError: the connection is broken.
    """
    times: dict[str, int] = {}
    frequency = 0
    with optional(session):
        times = session.virt.getCPUStats(libvirt.VIR_NODE_CPU_STATS_ALL_CPUS)
    with optional(session):
        frequency = session.virt.getInfo()[_FREQUENCY]
    return CpuUse(times=times, frequency=frequency or None)
