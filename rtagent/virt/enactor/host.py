"""Guests on a host behind a connection to libvirt, and their domain documents. Hosts: their URIs,
and a connection to each.
"""

import contextlib
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from typing import TypeVar

import libvirt
from lxml import etree

from rtagent.errors import HypervisorUnavailable
from rtagent.model.guest import GuestDomain, GuestState
from rtagent.virt.libvirt import guest
from rtagent.virt.libvirt.connection import LibvirtConnection, Session, broken, caused
from rtagent.virt.libvirt.document import E, parse, received, text
from rtagent.virt.libvirt.given_devices import given_devices
from rtagent.virt.libvirt.workers import CallWorkers

T = TypeVar("T")

#: The part of a pattern that is replaced by the name of a host.
PLACE = "{host}"
#: A host name becomes part of a URI and of a path.
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")

#: An error after which the same call may succeed: another call has the domain's lock.
_BUSY = libvirt.VIR_ERR_OPERATION_TIMEOUT


#: Called with the session open, just before a call of libvirt that has an effect, after all that
#: may hang; its error prevents the call. A process that stands still after it loses its session,
#: because libvirt's daemon closes that of a client that does not answer keep-alive messages. The
#: call then fails, when the process goes on.
Check = Callable[[], object]


def unchecked() -> None:
    """Allow every call."""


class OrderRefused(Exception):
    """An order for a guest is refused here, and not by libvirt. The message says why."""


class NotOfClaim(OrderRefused):
    """The domain is of another claim than the order, or of none."""


def check_claim(claim: str | None, claims: Collection[str]) -> None:
    """Check that a domain is of one of the claims. :raises NotOfClaim:"""
    if claim not in claims:
        of = "no claim" if claim is None else f"the claim {claim}"
        raise NotOfClaim(f"it is of {of}, and not of {' or '.join(claims)}")


def uri_of(pattern: str, host: str) -> str:
    """Return the URI of a host. :raises HypervisorUnavailable: its name cannot be part of one."""
    if PLACE in pattern and not _NAME.fullmatch(host):
        raise HypervisorUnavailable(
            f"{host!r} cannot be a part of {pattern}: a host name has letters, digits, - _ and ."
        )
    return pattern.replace(PLACE, host)


class HostConnection:
    """The connection to one host: opened by the first call, and opened again after a loss.

    Thread-safe. A call that hangs costs a thread until it returns.
    """

    def __init__(self, uri: str, call_timeout: float) -> None:
        self._workers = CallWorkers(call_timeout)
        self._connection = LibvirtConnection(uri, self._workers)

    def run(self, call: Callable[[libvirt.virConnect], T]) -> T:
        """Return the result of a call with the open connection.

        A call that hangs is given up here, and goes on when libvirt answers: see `Check`.

        :raises HypervisorUnavailable: the host does not answer, or has no time now.
        :raises libvirt.libvirtError: the host refused.
        """
        return self._made(call, self._workers.call)

    def run_long(self, call: Callable[[libvirt.virConnect], T]) -> T:
        """Do the same without a time limit."""
        return self._made(call, self._workers.long)

    def close(self) -> None:
        """Close the connection, if it is open."""
        self._connection.close(0.0)

    def _made(
        self, call: Callable[[libvirt.virConnect], T], work: Callable[[Callable[[], T]], T]
    ) -> T:
        session = self._connection.session()
        try:
            return work(lambda: self._attempt(session, call))
        except TimeoutError as error:
            raise self._unavailable(error) from error

    def _attempt(self, session: Session, call: Callable[[libvirt.virConnect], T]) -> T:
        try:
            return call(session.virt)
        except libvirt.libvirtError as error:
            if broken(session, error):
                self._connection.lose(session, str(error))
                raise self._unavailable(error) from error
            if error.get_error_code() == _BUSY:
                raise self._unavailable(error) from error
            raise

    def _unavailable(self, error: Exception) -> HypervisorUnavailable:
        return HypervisorUnavailable(f"{self._connection.uri}: {error}")


#: The machine type without an image property ``hw_machine_type``, where QEMU has it: only on it
#: does a guest see the NUMA node of a device.
_MACHINES = {"x86_64": "q35", "i686": "q35"}

#: The namespace of the element of ``<metadata>`` that names the server and the claim of a domain.
NAMESPACE = "urn:rtagent:server"
_SERVER = f"{{{NAMESPACE}}}server"


def domain_document(domain: GuestDomain, virt_type: str, architecture: str) -> str:
    """Return the whole document: the caller's, or a minimal one, with the claim merged into it.

    :param virt_type: the type of a minimal document, such as ``kvm``.
    :param architecture: of its guest.
    :raises BadDocument: the caller's document is invalid.
    """
    if domain.document is None:
        root = _minimal(domain, virt_type, architecture)
    else:
        root = parse(domain.document)
    _identify(root, domain)
    return claimed(root, domain)


def claimed(root: etree._Element, domain: GuestDomain) -> str:
    """Return a domain document with a claim, and the names of claim and server, merged into it."""
    _name(root, domain)
    return guest.apply(etree.tostring(root, encoding="unicode"), domain.claim)


def claim_of(document: str) -> str | None:
    """Return the uuid of the claim that a domain document names; None: it names none."""
    element = parse(document).find(f"metadata/{_SERVER}")
    return None if element is None else element.get("claim")


def mdev_names(document: str) -> tuple[str, ...]:
    """Return how the node devices' names begin of the mediated devices that a domain document
    assigns.

    :raises BadDocument: it is unknown which device an element assigns.
    """
    return tuple(f"mdev_{uuid.replace('-', '_')}" for uuid in given_devices(parse(document)).mdevs)


def device_name(document: str) -> str:
    """Return the name in the document of a node device."""
    return text(parse(document), "name")


def _minimal(domain: GuestDomain, virt_type: str, architecture: str) -> etree._Element:
    """Build a document without disks and networks."""
    type_ = E.type("hvm", arch=architecture)
    properties = domain.claim.image.properties
    machine = properties.get("hw_machine_type", _MACHINES.get(architecture))
    if machine is not None:
        type_.set("machine", machine)
    return E.domain(
        E.os(type_), E.features(E.acpi()), E.on_poweroff("destroy"), E.devices(), type=virt_type
    )


def _identify(root: etree._Element, domain: GuestDomain) -> None:
    """Put name, uuid and memory first, instead of the document's own.

    A host has one domain of a name, and tenants choose the names of servers: the name is the uuid.
    """
    memory = E.memory(str(domain.claim.flavor.memory_mb), unit="MiB")
    _put_first(root, E.name(domain.uuid), E.uuid(domain.uuid), memory)
    for element in root.findall("currentMemory"):
        root.remove(element)


def _name(root: etree._Element, domain: GuestDomain) -> None:
    """Put the names of the server and of the claim into title and metadata."""
    metadata = root.find("metadata")
    metadata = E.metadata() if metadata is None else metadata
    for element in metadata.findall(f"{{{NAMESPACE}}}*"):  # libvirt knows one of a namespace
        metadata.remove(element)
    server = etree.SubElement(metadata, _SERVER, nsmap={"rtagent": NAMESPACE})
    server.set("name", domain.name)
    server.set("claim", domain.claim.uuid)
    _put_first(root, E.title(domain.name), metadata)


def _put_first(root: etree._Element, *elements: etree._Element) -> None:
    """Put elements at the beginning, instead of those with their tags."""
    for element in elements:
        for old in root.findall(element.tag):
            root.remove(old)
    for place, element in enumerate(elements):
        root.insert(place, element)


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
