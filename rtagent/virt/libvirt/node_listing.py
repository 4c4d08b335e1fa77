"""The listing of node devices: everyone's name, in one call."""

from __future__ import annotations

import libvirt

from rtagent.model.observation import Problem
from rtagent.virt.libvirt.asking import Asking
from rtagent.virt.libvirt.connection import Session, broken
from rtagent.virt.libvirt.worker import Workers

WHAT = "node devices"

#: PCI devices, and what can be a part of one. Their serial numbers, virtual functions and types of
#: mediated devices are told by their own documents.
_KINDS = (
    libvirt.VIR_CONNECT_LIST_NODE_DEVICES_CAP_PCI_DEV
    | libvirt.VIR_CONNECT_LIST_NODE_DEVICES_CAP_NET
    | libvirt.VIR_CONNECT_LIST_NODE_DEVICES_CAP_MDEV
    | libvirt.VIR_CONNECT_LIST_NODE_DEVICES_CAP_VDPA
)
#: Without this, mediated devices are listed that are defined and do not exist.
_ACTIVE = libvirt.VIR_CONNECT_LIST_NODE_DEVICES_ACTIVE


class Listed:
    """A device in the listing of one look. :ivar key: its name."""

    __slots__ = ("key", "virt")

    def __init__(self, virt: libvirt.virNodeDevice) -> None:
        self.virt = virt
        self.key: str = virt.name()


class NodeListing:
    """Lists through one session."""

    def __init__(self, session: Session, workers: Workers) -> None:
        self._session = session
        self._asking = Asking(session, workers, WHAT)
        self._flags = _KINDS | _ACTIVE

    def look(self) -> dict[str, Listed] | Problem:
        """By name; none where the driver has no node devices.

        :raises libvirt.libvirtError: TimeoutError: the session is of no use.
        """
        ((_, found),) = self._asking.ask(lambda _: self._names(), [_Everything()])
        return found

    def _names(self) -> dict[str, Listed] | Problem:
        try:
            listed = [Listed(each) for each in self._all()]
        except libvirt.libvirtError as error:
            if error.get_error_code() == libvirt.VIR_ERR_NO_SUPPORT:
                return {}
            if broken(self._session, error):
                raise
            return Problem(item=WHAT, message=str(error))
        return {each.key: each for each in listed}

    def _all(self) -> list[libvirt.virNodeDevice]:
        virt = self._session.virt
        try:
            return virt.listAllDevices(self._flags)
        except libvirt.libvirtError as error:
            if error.get_error_code() != libvirt.VIR_ERR_INVALID_ARG or not self._flags & _ACTIVE:
                raise
        self._flags &= ~_ACTIVE  # unknown to a driver that has no others
        return virt.listAllDevices(self._flags)


class _Everything:
    """What is asked about."""

    key = ""
