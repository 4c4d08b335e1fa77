"""Observe node devices: one bulk listing, and single reads only of devices that may have changed,
and of a part of the others in turn."""

import threading
from collections.abc import Iterable, Mapping
from enum import Enum, auto
from functools import partial

import libvirt

from rtagent.model.base import Value
from rtagent.model.device import NO_ROOT_PORTS, VDPA, Device, Mdev, RootPorts
from rtagent.model.observation import Problem
from rtagent.virt.libvirt.connection import Session, broken, caused
from rtagent.virt.libvirt.document import BadDocument, received
from rtagent.virt.libvirt.domains import ROUND
from rtagent.virt.libvirt.node_device_xml import (
    MdevNode,
    NetNode,
    NodeDevice,
    devices,
    doubtful_interfaces,
    mdevs,
    other_mdevs,
    parse_node_device,
    root_ports,
    vdpas,
)
from rtagent.virt.libvirt.workers import BoundedCalls, CallWorkers

WHAT = "node devices"

#: PCI devices and the types of devices that are parts of them. Serial numbers, virtual functions
#: and mediated device types are in the documents of the PCI devices.
_TYPES = (
    libvirt.VIR_CONNECT_LIST_NODE_DEVICES_CAP_PCI_DEV
    | libvirt.VIR_CONNECT_LIST_NODE_DEVICES_CAP_NET
    | libvirt.VIR_CONNECT_LIST_NODE_DEVICES_CAP_MDEV
    | libvirt.VIR_CONNECT_LIST_NODE_DEVICES_CAP_VDPA
)
#: Without this flag the list includes mediated devices that are defined but do not exist.
_ACTIVE = libvirt.VIR_CONNECT_LIST_NODE_DEVICES_ACTIVE


class DeviceLook(Value, frozen=True, kw_only=True):
    """One observation of all node devices.

    :ivar devices: PCI devices; None if the listing failed, and then `mdevs` and `root_ports` are
        those of the last listing.
    """

    devices: tuple[Device, ...] | None
    mdevs: tuple[Mdev, ...]
    root_ports: RootPorts
    problems: tuple[Problem, ...]


class _Odd(Value, frozen=True, kw_only=True):
    """A device with an invalid document: quarantined as long as the document is invalid."""

    message: str


class _Gone(Enum):
    """The device disappeared between the listing and the read."""

    GONE = auto()


#: The result of parsing a document; None: a type without a meaning for guests.
_Found = NodeDevice | _Odd | None


class NodeDevices:
    """Caches the results of reads, and records which devices must be read again.

    `mark` may be called on any thread, `look` on one at a time.

    :ivar vdpas: addresses of the PCI devices that have vDPA devices, by the path of the character
        device of the latter, as last read; None: no PCI device has it.
    :ivar interfaces: addresses of PCI devices by the name of their network interface, as last read;
        None: the interface is not that of a PCI device.
    :ivar other_mdevs: uuids of mediated devices of other parents than PCI devices, as last read.
    """

    def __init__(self, workers: CallWorkers) -> None:
        self._workers = workers
        self._session: Session | None = None
        self._lock = threading.Lock()
        self._marked: set[str] = set()
        self._looks = 0
        self._known: dict[str, _Found] = {}
        self._assembled: Mapping[str, _Found] = {}
        self._devices: tuple[Device, ...] = ()
        self._doubts: tuple[Problem, ...] = ()
        self._mdevs: tuple[Mdev, ...] = ()
        self._root_ports = NO_ROOT_PORTS
        self.vdpas: Mapping[str, str | None] = {}
        self.interfaces: Mapping[str, str | None] = {}
        self.other_mdevs = frozenset[str]()

    @property
    def mdevs(self) -> Mapping[str, Mdev]:
        """The mediated devices of PCI devices by uuid, as last read."""
        return {mdev.uuid: mdev for mdev in self._mdevs if mdev.uuid is not None}

    def mark(self, *names: str) -> None:
        """Read these devices again at the next observation."""
        with self._lock:
            self._marked.update(names)

    def unlisted(self, why: str) -> DeviceLook:
        """Return an observation in which the devices could not be listed."""
        return self._look(None, Problem(item=WHAT, message=why))

    def look(self, session: Session) -> DeviceLook:
        """Observe all PCI devices and the existing mediated devices.

        :raises libvirt.libvirtError: they cannot be listed, or an error of the transport.
        :raises TimeoutError: the session is unusable.
        """
        if session is not self._session:
            self._begin(session)
        # Some changes emit no event: of the types of mediated devices, for example.
        self._looks += 1
        self.mark(*sorted(self._known)[self._looks % ROUND :: ROUND])
        # This precedes the listing, because a device that is marked from now on may be newer than
        # the data read below.
        marked = self._take_marks()
        try:
            ((_, listed),) = self._listing.each(self._list, {"": session.virt})
            if isinstance(listed, Problem):
                self.mark(*marked)
                return self._look(None, listed)
            problems = self._update(session, listed, marked)
        except Exception:
            self.mark(*marked)
            raise
        if self._known != self._assembled:
            self._assemble()
        odd = (
            Problem(item=f"device {name}", message=found.message)
            for name, found in sorted(self._known.items())
            if isinstance(found, _Odd)
        )
        return self._look(self._devices, *problems, *odd, *self._doubts)

    def _look(self, devices: tuple[Device, ...] | None, *problems: Problem) -> DeviceLook:
        return DeviceLook(
            devices=devices, mdevs=self._mdevs, root_ports=self._root_ports, problems=problems
        )

    def _begin(self, session: Session) -> None:
        """Read everything again. What an earlier session has read stays until then."""
        self._session = session
        self.mark(*self._known)
        self._flags = _TYPES | _ACTIVE
        self._listing = BoundedCalls(session.virt.getLibVersion, self._workers, WHAT)
        self._reading = BoundedCalls(session.virt.getLibVersion, self._workers, "device")

    def _list(self, virt: libvirt.virConnect) -> dict[str, libvirt.virNodeDevice]:
        """Return the devices by name."""
        try:
            listed = caused(lambda: virt.listAllDevices(self._flags))
        except libvirt.libvirtError as error:
            if error.get_error_code() != libvirt.VIR_ERR_INVALID_ARG or not self._flags & _ACTIVE:
                raise
            # The driver does not know the flag: all its devices are active.
            self._flags &= ~_ACTIVE
            listed = virt.listAllDevices(self._flags)
        return {device.name(): device for device in listed}

    def _take_marks(self) -> set[str]:
        with self._lock:
            marked, self._marked = self._marked, set()
        return marked

    def _update(
        self, session: Session, listed: Mapping[str, libvirt.virNodeDevice], marked: set[str]
    ) -> list[Problem]:
        def read(names: set[str]) -> list[Problem]:
            return self._read(session, {name: listed[name] for name in names})

        gone = {name: self._known.pop(name) for name in self._known.keys() - listed.keys()}
        outdated = {name for name in listed if name not in self._known or name in marked}
        before = {name: self._known.get(name) for name in outdated}
        problems = read(outdated)
        changed = (node for name in outdated if (node := self._known.get(name)) != before[name])
        return problems + read(self._mdev_parents((*gone.values(), *changed)) - outdated)

    def _mdev_parents(self, changed: Iterable[_Found]) -> set[str]:
        """Return the devices whose free instances change with these mediated devices: all
        functions of the same card, which share its instances."""
        parents = {found.parent for found in _of_kind(changed, MdevNode)}
        known = {
            found.name: found.facts
            for found in _of_kind(self._known.values(), Device)
            if isinstance(found.facts, Device) and found.facts.mdev_types
        }
        cards = {_card(known[parent]) for parent in parents if parent in known}
        return {name for name, device in known.items() if _card(device) in cards}

    def _read(
        self, session: Session, devices: Mapping[str, libvirt.virNodeDevice]
    ) -> list[Problem]:
        problems = []
        for name, result in self._reading.each(partial(_parsed, session), devices):
            if not isinstance(result, Problem | _Gone):
                self._known[name] = result
                continue
            self.mark(name)  # keep the last known value until then
            if isinstance(result, Problem):
                problems.append(result)
        return problems

    def _assemble(self) -> None:
        self._assembled = dict(self._known)
        nodes = {n: found for n, found in self._known.items() if isinstance(found, NodeDevice)}
        every, self._mdevs = devices(nodes), mdevs(nodes)
        # The host itself uses the vDPA device, as through virtio_vdpa.
        in_use = {d.address for d in every if d.dev_type == VDPA and not d.vdpa_dev}
        self._devices = tuple(device for device in every if device.address not in in_use)
        self._root_ports = root_ports(nodes)
        doubtful = dict(doubtful_interfaces(nodes))
        doubts = {
            address: f"its own interface is unknown among {', '.join(interfaces)}: no device"
            " specification with devname matches it or its virtual functions"
            for address, interfaces in doubtful.items()
        } | dict.fromkeys(in_use, "its vDPA device has no path: bind that to vhost_vdpa")
        self._doubts = tuple(
            Problem(item=f"device {address}", message=message)
            for address, message in sorted(doubts.items())
        )
        self.vdpas, self.other_mdevs = vdpas(nodes), other_mdevs(nodes)
        named = {device.net_name: device.address for device in every if device.net_name}
        # A guest that has one of them may have the device.
        named |= {name: address for address, names in doubtful.items() for name in names}
        nets = (each.facts for each in nodes.values() if isinstance(each.facts, NetNode))
        self.interfaces = {each.interface: named.get(each.interface) for each in nets}


def _of_kind(found: Iterable[_Found], kind: type) -> list[NodeDevice]:
    return [each for each in found if isinstance(each, NodeDevice) and isinstance(each.facts, kind)]


def _card(device: Device) -> str:
    return device.parent_addr or device.address


def _parsed(session: Session, device: libvirt.virNodeDevice) -> _Found | _Gone | Problem:
    """Read and parse the document; a `Problem` when the read failed this time."""
    try:
        return parse_node_device(caused(lambda: received(lambda: device.XMLDesc(0))))
    except BadDocument as error:
        return _Odd(message=str(error))
    except libvirt.libvirtError as error:
        if error.get_error_code() == libvirt.VIR_ERR_NO_NODE_DEVICE:
            return _Gone.GONE
        if broken(session, error):
            raise
        return Problem(item=f"device {device.name()}", message=str(error))
