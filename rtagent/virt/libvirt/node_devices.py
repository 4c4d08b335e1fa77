"""The node devices, listed in bulk and read one by one only when something may have changed."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from enum import Enum, auto

import libvirt

from rtagent.model.base import Value
from rtagent.model.device import Device, Mdev
from rtagent.model.observation import Problem
from rtagent.virt.libvirt.asking import Asking
from rtagent.virt.libvirt.connection import Session, broken
from rtagent.virt.libvirt.document import BadDocument
from rtagent.virt.libvirt.node_listing import Listed, NodeListing
from rtagent.virt.libvirt.nodedev import (
    MdevNode,
    NodeDevice,
    devices,
    mdevs,
    parse_node_device,
)
from rtagent.virt.libvirt.worker import Workers


class DeviceLook(Value, frozen=True, kw_only=True):
    """One look at all of them. :ivar devices: None when they could not be listed; the mediated
    ones are those of the last look then."""

    devices: tuple[Device, ...] | None
    mdevs: tuple[Mdev, ...]
    problems: tuple[Problem, ...]


class _Odd(Value, frozen=True, kw_only=True):
    """A device whose document means nothing to us: quarantined for as long as it is so."""

    message: str


class _Gone(Enum):
    """It went between the listing and its reading."""

    GONE = auto()


#: What a document makes; None: it is of no interest.
_Found = NodeDevice | _Odd | None


class NodeDevices:
    """Remembers what was read, and which devices are to be read again.

    `mark` may be called by any thread; `look` by one at a time.

    :ivar vdpas: addresses of vDPA devices, by the path of their character device, as last seen.
    """

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._session: Session | None = None
        self._lock = threading.Lock()
        self._marked: set[str] = set()
        self.vdpas: Mapping[str, str] = {}

    def mark(self, *names: str) -> None:
        """Read these devices again at the next look."""
        with self._lock:
            self._marked.update(names)

    def look(self, session: Session) -> DeviceLook:
        """All PCI devices, and the mediated ones that exist.

        :raises libvirt.libvirtError: TimeoutError: the session is of no use.
        """
        if session is not self._session:
            self._begin(session)
        # Taken before the listing: what is marked from now on may be newer than what is read.
        marked = self._take_marks()
        listed = self._listing.look()
        if isinstance(listed, Problem):
            self.mark(*marked)
            return DeviceLook(devices=None, mdevs=self._mdevs, problems=(listed,))
        before = dict(self._known)
        problems = self._update(session, listed, marked)
        if self._known != before:
            self._put_together()
        odd = (
            Problem(item=f"device {name}", message=found.message)
            for name, found in sorted(self._known.items())
            if isinstance(found, _Odd)
        )
        return DeviceLook(devices=self._devices, mdevs=self._mdevs, problems=(*problems, *odd))

    def _begin(self, session: Session) -> None:
        """Nothing that another session told counts in this one."""
        self._session = session
        self._known: dict[str, _Found] = {}
        self._devices: tuple[Device, ...] = ()
        self._mdevs: tuple[Mdev, ...] = ()
        self._listing = NodeListing(session, self._workers)
        self._reading = Asking(session, self._workers, "device")

    def _take_marks(self) -> set[str]:
        with self._lock:
            marked, self._marked = self._marked, set()
        return marked

    def _update(
        self, session: Session, listed: Mapping[str, Listed], marked: set[str]
    ) -> list[Problem]:
        gone = {name: self._known.pop(name) for name in self._known.keys() - listed.keys()}
        outdated = {n for n in listed if n not in self._known or n in marked}
        problems = self._read(session, (listed[name] for name in outdated))
        read = (self._known.get(name) for name in outdated)
        makers = self._makers((*gone.values(), *read)) - outdated
        return problems + self._read(session, (listed[name] for name in makers))

    def _makers(self, changed: Iterable[_Found]) -> set[str]:
        """The devices that can make more, or fewer, for what became of mediated ones: those of the
        same card, whose functions share what it has."""
        parents = {found.parent for found in _interesting(changed, MdevNode)}
        known = {
            found.name: found.facts
            for found in _interesting(self._known.values(), Device)
            if isinstance(found.facts, Device) and found.facts.mdev_types
        }
        cards = {_card(known[parent]) for parent in parents if parent in known}
        return {name for name, device in known.items() if _card(device) in cards}

    def _read(self, session: Session, those: Iterable[Listed]) -> list[Problem]:
        problems = []
        for each, found in self._reading.ask(lambda it: _found(session, it), list(those)):
            if not isinstance(found, Problem | _Gone):
                self._known[each.key] = found
                continue
            self.mark(each.key)  # until then it is what it was, if that is known
            if isinstance(found, Problem):
                problems.append(found)
        return problems

    def _put_together(self) -> None:
        nodes = {n: found for n, found in self._known.items() if isinstance(found, NodeDevice)}
        self._devices, self._mdevs = devices(nodes), mdevs(nodes)
        self.vdpas = {each.vdpa_dev: each.address for each in self._devices if each.vdpa_dev}


def _interesting(found: Iterable[_Found], kind: type) -> list[NodeDevice]:
    return [each for each in found if isinstance(each, NodeDevice) and isinstance(each.facts, kind)]


def _card(device: Device) -> str:
    return device.parent_addr or device.address


def _found(session: Session, each: Listed) -> _Found | _Gone | Problem:
    """A problem: it could not be read, this time."""
    try:
        return parse_node_device(each.virt.XMLDesc(0))
    except BadDocument as error:
        return _Odd(message=str(error))
    except libvirt.libvirtError as error:
        if error.get_error_code() == libvirt.VIR_ERR_NO_NODE_DEVICE:
            return _Gone.GONE
        if broken(session, error):
            raise
        return Problem(item=f"device {each.key}", message=str(error))
