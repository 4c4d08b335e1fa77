"""Guests on a host behind a connection to libvirt."""

from __future__ import annotations

import time
from collections.abc import Iterable
from functools import partial

import libvirt

from rtagent.model.guest_domain import GuestDomain, GuestState
from rtagent.virt.enactor.document import domain_document, mdev_uuids
from rtagent.virt.enactor.hosts import HostConnection
from rtagent.virt.libvirt.document import parse, received, text

#: Seconds between two looks at a guest that shuts down.
_PAUSE = 0.2

_MDEVS = libvirt.VIR_CONNECT_LIST_NODE_DEVICES_CAP_MDEV
#: What a definition has that is not part of the state of a running domain.
_DEFINED = libvirt.VIR_DOMAIN_XML_INACTIVE


class LibvirtHost:
    """Every method may be repeated. Each call of libvirt is bounded.

    Every method raises `HypervisorUnavailable` if the host does not answer, and
    `libvirt.libvirtError` or `BadDocument` if it refuses.

    :param shutdown_timeout: seconds that a guest gets to shut down, before it is switched off.
    :param virt_type: of a domain without a document; None: the best that the host has.
    """

    def __init__(
        self, connection: HostConnection, shutdown_timeout: float, virt_type: str | None
    ) -> None:
        self.connection = connection
        self._shutdown_timeout, self._virt_type = shutdown_timeout, virt_type

    def state(self, server_uuid: str) -> GuestState:
        """Return whether the domain is absent, stopped or running."""
        return self.connection.run(lambda virt: _state(virt, server_uuid))

    def define(self, domain: GuestDomain) -> None:
        """Define the domain, or replace its definition."""
        virt_type = self._virt_type or self.connection.run(_best_type)
        architecture = self.connection.run(lambda virt: str(virt.getInfo()[0]))
        document = domain_document(domain, virt_type, architecture)
        validate = libvirt.VIR_DOMAIN_DEFINE_VALIDATE
        self.connection.run(lambda virt: virt.defineXMLFlags(document, validate) and None)

    def start(self, domain: GuestDomain) -> None:
        """Create the mediated devices that are missing, and start the domain unless it runs."""
        if self.state(domain.uuid) != "running":
            self.create_mdevs(domain.node_devices)
            self.connection.run(lambda virt: _start(virt, domain.uuid))

    def stop(self, server_uuid: str) -> None:
        """Let the guest shut down, for a bounded time; then switch it off."""
        if self.state(server_uuid) != "running":
            return
        if self._shutdown_timeout > 0:
            self._shut_down(server_uuid)
        self.connection.run(lambda virt: _destroy(virt, server_uuid))

    def undefine(self, server_uuid: str) -> None:
        """Switch the domain off, and remove its mediated devices and its definition."""
        self.connection.run(lambda virt: _destroy(virt, server_uuid))
        # Before the definition, which says which they are: a repetition needs it.
        self.connection.run(lambda virt: _remove_mdevs(virt, server_uuid))
        self.connection.run(lambda virt: _undefine(virt, server_uuid))

    def create_mdevs(self, documents: Iterable[str]) -> None:
        """Create the mediated devices that are missing."""
        for document in documents:
            self.connection.run(partial(_create_mdev, document=document))

    def _shut_down(self, server_uuid: str) -> None:
        """Ask the guest to shut down, and wait. A guest may ignore it."""
        self.connection.run(lambda virt: _shut_down(virt, server_uuid))
        deadline = time.monotonic() + self._shutdown_timeout
        while self.state(server_uuid) == "running" and time.monotonic() < deadline:
            time.sleep(_PAUSE)


def lookup(virt: libvirt.virConnect, server_uuid: str) -> libvirt.virDomain | None:
    """Return a domain; None: there is none."""
    try:
        return virt.lookupByUUIDString(server_uuid)
    except libvirt.libvirtError as error:
        if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
            return None
        raise


def _state(virt: libvirt.virConnect, server_uuid: str) -> GuestState:
    domain = lookup(virt, server_uuid)
    if domain is None:
        return "absent"
    try:
        return "running" if domain.isActive() else "stopped"
    except libvirt.libvirtError as error:
        if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
            return "absent"
        raise


def _start(virt: libvirt.virConnect, server_uuid: str) -> None:
    domain = virt.lookupByUUIDString(server_uuid)
    try:
        domain.create()
    except libvirt.libvirtError:
        # An earlier call, whose answer was lost, may have started it.
        if not domain.isActive():
            raise


def _shut_down(virt: libvirt.virConnect, server_uuid: str) -> None:
    domain = lookup(virt, server_uuid)
    if domain is None:
        return
    try:
        domain.shutdown()
    except libvirt.libvirtError:
        if domain.isActive() and domain.state()[0] == libvirt.VIR_DOMAIN_RUNNING:
            raise


def _destroy(virt: libvirt.virConnect, server_uuid: str) -> None:
    domain = lookup(virt, server_uuid)
    if domain is None or not domain.isActive():
        return
    try:
        domain.destroy()
    except libvirt.libvirtError:
        if lookup(virt, server_uuid) is not None and domain.isActive():
            raise


def _undefine(virt: libvirt.virConnect, server_uuid: str) -> None:
    domain = lookup(virt, server_uuid)
    if domain is None:
        return
    flags = (
        libvirt.VIR_DOMAIN_UNDEFINE_MANAGED_SAVE
        | libvirt.VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA
        | libvirt.VIR_DOMAIN_UNDEFINE_NVRAM
    )
    try:
        domain.undefineFlags(flags)
    except libvirt.libvirtError:
        if lookup(virt, server_uuid) is not None:
            raise


def _create_mdev(virt: libvirt.virConnect, document: str) -> None:
    name = text(parse(document), "name")
    if name not in {each.name() for each in virt.listAllDevices(_MDEVS)}:
        virt.nodeDeviceCreateXML(document)


def _remove_mdevs(virt: libvirt.virConnect, server_uuid: str) -> None:
    domain = lookup(virt, server_uuid)
    if domain is None:
        return
    wanted = mdev_uuids(received(lambda: domain.XMLDesc(_DEFINED)))
    prefixes = tuple(f"mdev_{each.replace('-', '_')}" for each in wanted)
    for device in virt.listAllDevices(_MDEVS) if prefixes else ():
        if device.name().startswith(prefixes):
            device.destroy()


def _best_type(virt: libvirt.virConnect) -> str:
    """Return the type that libvirt chooses if it may: KVM where the host has it."""
    return text(parse(virt.getDomainCapabilities()), "domain")
