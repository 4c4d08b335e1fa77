"""Guests on a host behind a connection to libvirt."""

import contextlib
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial

import libvirt

from rtagent.model.guest import GuestDomain, GuestState
from rtagent.virt.enactor.document import NAMESPACE, device_name, domain_document, mdev_names
from rtagent.virt.enactor.hosts import Check, HostConnection, OrderRefused, check_claim
from rtagent.virt.libvirt.connection import caused
from rtagent.virt.libvirt.document import parse, received, text

#: Seconds between two looks at a guest that shuts down.
_PAUSE = 0.2

_MDEVS = libvirt.VIR_CONNECT_LIST_NODE_DEVICES_CAP_MDEV
#: What a definition has that is not part of the state of a running domain.
_DEFINED = libvirt.VIR_DOMAIN_XML_INACTIVE


class LibvirtHost:
    """Every method may be repeated. Each call of libvirt is bounded.

    A domain is touched only if its metadata name a claim of the order. libvirt has no call that
    depends on them, so they are read just before, on the same session; see `Check`.

    Every method raises `NotOfClaim` if the domain is of another claim, `HypervisorUnavailable` if
    the host does not answer, and `libvirt.libvirtError` or `BadDocument` if it refuses.

    :param shutdown_timeout: seconds that a guest gets to shut down, before it is switched off.
    :param virt_type: of a domain without a document; None: the best that the host has.
    """

    def __init__(
        self, connection: HostConnection, shutdown_timeout: float, virt_type: str | None
    ) -> None:
        self.connection = connection
        self._shutdown_timeout, self._virt_type = shutdown_timeout, virt_type

    def state(self, server_uuid: str, claims: Collection[str] | None = None) -> GuestState:
        """Return whether the domain is absent, stopped or running. :param claims: None: of any."""
        return self.connection.run(lambda virt: _state(own(virt, server_uuid, claims)))

    def define(self, domain: GuestDomain, check: Check, replaced: Collection[str]) -> None:
        """Define the domain, or replace its definition if it is of this claim or a replaced one."""
        virt_type = self._virt_type or self.connection.run(_best_type)
        architecture = self.connection.run(lambda virt: str(virt.getInfo()[0]))
        document = domain_document(domain, virt_type, architecture)

        def define(virt: libvirt.virConnect) -> None:
            own(virt, domain.uuid, (domain.claim.uuid, *replaced))
            check()
            virt.defineXMLFlags(document, libvirt.VIR_DOMAIN_DEFINE_VALIDATE)

        self.connection.run(define)

    def start(self, domain: GuestDomain, check: Check) -> None:
        """Create the mediated devices that are missing, and start the domain unless it runs."""
        claims = (domain.claim.uuid,)
        if self.state(domain.uuid, claims) == "running":
            return
        self.create_mdevs(domain.node_devices, check)
        self.connection.run(lambda virt: _start(virt, domain.uuid, claims, check))

    def stop(self, server_uuid: str, claims: Collection[str], check: Check) -> None:
        """Let the guest shut down, for a bounded time; then switch it off."""
        if self.state(server_uuid, claims) != "running":
            return
        if self._shutdown_timeout > 0:
            self._shut_down(server_uuid, claims, check)
        self.connection.run(lambda virt: _destroy(own(virt, server_uuid, claims), check))

    def undefine(self, server_uuid: str, claims: Collection[str], check: Check) -> None:
        """Switch the domain off, and remove its mediated devices and its definition."""
        self.connection.run(lambda virt: _destroy(own(virt, server_uuid, claims), check))
        # Before the definition, which says which they are: a repetition needs it.
        self.connection.run(lambda virt: _remove_mdevs(virt, own(virt, server_uuid, claims), check))
        self.connection.run(lambda virt: _undefine(own(virt, server_uuid, claims), check))

    def create_mdevs(self, documents: Iterable[str], check: Check) -> None:
        """Create the mediated devices that are missing."""
        for document in documents:
            self.connection.run(partial(_create_mdev, document=document, check=check))

    def remove_mdevs(self, documents: Iterable[str], check: Check) -> None:
        """Remove mediated devices of a guest that did not come."""
        names = tuple(map(device_name, documents))
        self.connection.run(lambda virt: _destroy_mdevs(virt, names, check))

    def _shut_down(self, server_uuid: str, claims: Collection[str], check: Check) -> None:
        """Ask the guest to shut down, and wait. A guest may ignore it."""
        self.connection.run(lambda virt: _shut_down(own(virt, server_uuid, claims), check))
        deadline = time.monotonic() + self._shutdown_timeout
        while self.state(server_uuid) == "running" and time.monotonic() < deadline:
            time.sleep(_PAUSE)


def lookup(virt: libvirt.virConnect, server_uuid: str) -> libvirt.virDomain | None:
    """Return a domain; None: there is none."""
    try:
        return caused(lambda: virt.lookupByUUIDString(server_uuid))
    except libvirt.libvirtError as error:
        if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
            return None
        raise


def own(
    virt: libvirt.virConnect, server_uuid: str, claims: Collection[str] | None
) -> libvirt.virDomain | None:
    """Return the domain of a server; None: there is none.

    :param claims: None: it is of any. :raises NotOfClaim:
    """
    domain = lookup(virt, server_uuid)
    if domain is not None and claims is not None:
        with _unless(lambda: _is_gone(domain)):
            check_claim(_claim(domain), claims)
    return domain


def _claim(domain: libvirt.virDomain) -> str | None:
    """Return the claim that a domain's metadata names; None: they name none."""
    kind = libvirt.VIR_DOMAIN_METADATA_ELEMENT
    try:
        # libvirt returns the element without its namespace.
        document = caused(lambda: received(lambda: domain.metadata(kind, NAMESPACE)))
        return parse(document).get("claim")
    except libvirt.libvirtError as error:
        if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN_METADATA:
            return None
        raise


@contextlib.contextmanager
def _unless(achieved: Callable[[], object]) -> Iterator[None]:
    """Ignore an error of libvirt if the call was not needed any more."""
    try:
        yield
    except libvirt.libvirtError:
        if not achieved():
            raise


def _is_gone(domain: libvirt.virDomain) -> bool:
    return lookup(domain.connect(), domain.UUIDString()) is None


def _is_active(domain: libvirt.virDomain | None) -> bool:
    if domain is None:
        return False
    try:
        return bool(caused(domain.isActive))
    except libvirt.libvirtError as error:
        if error.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
            return False
        raise


def _state(domain: libvirt.virDomain | None) -> GuestState:
    if _is_active(domain):
        return "running"
    return "absent" if domain is None else "stopped"


def _start(
    virt: libvirt.virConnect, server_uuid: str, claims: Collection[str], check: Check
) -> None:
    domain = own(virt, server_uuid, claims)
    if domain is None:
        raise OrderRefused("it is not defined")
    check()
    # An earlier call, whose answer was lost, may have started it.
    with _unless(domain.isActive):
        domain.create()


def _shut_down(domain: libvirt.virDomain | None, check: Check) -> None:
    if domain is None:
        return
    check()
    with _unless(lambda: not domain.isActive() or domain.state()[0] != libvirt.VIR_DOMAIN_RUNNING):
        domain.shutdown()


def _destroy(domain: libvirt.virDomain | None, check: Check) -> None:
    if domain is None or not _is_active(domain):
        return
    check()
    with _unless(lambda: not _is_active(domain)):
        domain.destroy()


def _undefine(domain: libvirt.virDomain | None, check: Check) -> None:
    if domain is not None:
        flags = (
            libvirt.VIR_DOMAIN_UNDEFINE_MANAGED_SAVE
            | libvirt.VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA
            | libvirt.VIR_DOMAIN_UNDEFINE_NVRAM
        )
        check()
        with _unless(lambda: _is_gone(domain)):
            domain.undefineFlags(flags)


def _create_mdev(virt: libvirt.virConnect, document: str, check: Check) -> None:
    if device_name(document) not in {each.name() for each in virt.listAllDevices(_MDEVS)}:
        check()
        virt.nodeDeviceCreateXML(document)


def _remove_mdevs(virt: libvirt.virConnect, domain: libvirt.virDomain | None, check: Check) -> None:
    if domain is not None:
        _destroy_mdevs(virt, mdev_names(received(lambda: domain.XMLDesc(_DEFINED))), check)


def _destroy_mdevs(virt: libvirt.virConnect, prefixes: tuple[str, ...], check: Check) -> None:
    for device in virt.listAllDevices(_MDEVS) if prefixes else ():
        if device.name().startswith(prefixes):
            check()
            device.destroy()


def _best_type(virt: libvirt.virConnect) -> str:
    """Return the type that libvirt chooses if it may: KVM where the host has it."""
    return text(parse(virt.getDomainCapabilities()), "domain")
