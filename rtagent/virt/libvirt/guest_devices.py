"""Devices in domain documents: build the elements that assign devices, and parse the assigned
devices of a document. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from uuid import UUID

from lxml import etree
from lxml.builder import E

from rtagent.model.address import LIMITS, BadAddress, parse_address
from rtagent.model.assigned_resources import AssignedResource
from rtagent.model.base import Value
from rtagent.model.device import SRIOV_VF, VDPA, AssignedDevice
from rtagent.model.domain_usage import HostResource
from rtagent.pci.mdev import mdev_uuid
from rtagent.pci.requests import NEUTRON_PORT
from rtagent.virt.libvirt.document import BadDocument
from rtagent.virt.libvirt.guest_buses import Near
from rtagent.virt.libvirt.guest_memory import is_namespace, paths
from rtagent.virt.libvirt.unread import Unread

#: Tag and type of the children of ``<devices>`` that assign a host device.
_TYPES = frozenset(
    {("hostdev", "pci"), ("hostdev", "mdev"), ("interface", "hostdev"), ("interface", "vdpa")}
)
#: Children of ``<devices>`` that may assign a host device, and the types of interfaces that do.
_CARRIERS = frozenset({"hostdev", "interface", "memory"})
_HOST_INTERFACES = frozenset({"hostdev", "vdpa"})
#: The largest PCI domain of Linux, which numbers virtual buses with 32 bits.
_LAST_DOMAIN = 2**32 - 1


class Given(Value, frozen=True, kw_only=True):
    """The host devices that a domain document assigns.

    :ivar addresses: of PCI devices. :ivar mdevs: uuids of mediated devices.
    :ivar vdpas: paths of the character devices of vDPA devices.
    :ivar namespaces: paths of the devices of persistent memory namespaces.
    """

    addresses: frozenset[str] = frozenset()
    mdevs: frozenset[str] = frozenset()
    vdpas: frozenset[str] = frozenset()
    namespaces: frozenset[str] = frozenset()


_NOTHING_GIVEN = Given()


def device_elements(devices: Iterable[AssignedDevice]) -> tuple[etree._Element, ...]:
    """Return a child of ``<devices>`` for each device, in order.

    A virtual function for a Neutron port becomes an ``<interface>``, on which libvirt can set a
    MAC address; a physical function cannot have one set and becomes a ``<hostdev>``.
    """
    return tuple(_element(device) for device in devices)


def mdev_elements(node_uuid: str, units: Iterable[AssignedResource]) -> tuple[etree._Element, ...]:
    """Return a child of ``<devices>`` for each mediated device."""
    return tuple(
        E.hostdev(
            E.source(E.address(uuid=mdev_uuid(node_uuid, unit.identifier))),
            mode="subsystem",
            type="mdev",
            model="vfio-pci",
        )
        for unit in units
    )


def mdev_document(node_uuid: str, unit: AssignedResource) -> etree._Element:
    """Return the node device to create for a unit before its guest is started."""
    uuid = mdev_uuid(node_uuid, unit.identifier)
    address, type_, _ = unit.identifier.split("/")
    parent = "pci_" + "_".join(parse_address(address))
    document: etree._Element = E.device(
        E.name(f"mdev_{uuid.replace('-', '_')}_" + "_".join(parse_address(address))),
        E.parent(parent),
        E.capability(E.type(id=type_), E.uuid(uuid), type="mdev"),
    )
    return document


def put_devices(domain: etree._Element, elements: Iterable[etree._Element]) -> None:
    """Make a domain document assign these devices, and no other devices of their types.

    An element that assigns one of them already keeps its other content (an interface's MAC
    address, for instance). Adding the same devices again changes nothing.
    """
    wanted = {source(element): element for element in elements}
    parent = domain.find("devices")
    if parent is None:
        if not wanted:
            return
        parent = etree.SubElement(domain, "devices")
    for element in [each for each in parent if assigns(each)]:
        same = wanted.pop(source(element), None)
        if same is None:
            parent.remove(element)
        elif "managed" in same.attrib:
            element.set("managed", same.attrib["managed"])
        elif element.tag == "memory":
            _resize(element, same)
    parent.extend(wanted.values())


def given_devices(domain: etree._Element) -> Given:
    """Return the host devices that a domain document assigns.

    :raises BadDocument: it is unknown which device an element assigns.
    """
    unread = Unread()
    given = readable_devices(domain, unread)
    unread.check()
    return given


def readable_devices(domain: etree._Element, unread: Unread) -> Given:
    """Return the host devices that a domain document assigns, as far as its elements say.

    :param unread: what they do not say is added to it.
    """
    if not any(_may_assign(each) for part in domain.iterchildren("devices") for each in part):
        return _NOTHING_GIVEN  # most domains

    def names(read: Callable[[etree._Element], str | None], *paths: str) -> frozenset[str]:
        elements = (element for path in paths for element in domain.iterfind(f"devices/{path}"))
        found = unread.each(read, elements, HostResource.DEVICES)
        return frozenset(name for name in found if name is not None)

    return Given(
        addresses=names(_read_address, "hostdev[@type='pci']", "interface[@type='hostdev']"),
        mdevs=names(_read_mdev, "hostdev[@type='mdev']"),
        vdpas=names(_read_vdpa, "interface[@type='vdpa']"),
        namespaces=frozenset(paths(domain)),
    )


def _may_assign(element: etree._Element) -> bool:
    tag = element.tag
    return tag in _CARRIERS and (tag != "interface" or element.get("type") in _HOST_INTERFACES)


def near(domain: etree._Element, devices: Iterable[AssignedDevice]) -> Iterator[Near]:
    """Yield the elements that assign these devices, with the host cell of each that has one."""
    cells = {
        source(element): device.numa_node
        for device in devices
        for element in device_elements([device])
    }
    for element in domain.iterfind("devices/*"):
        cell = cells.get(source(element)) if assigns(element) else None
        if cell is not None:
            yield element, cell


def assigns(element: etree._Element) -> bool:
    """Return whether the element assigns a host device."""
    return (element.tag, element.get("type")) in _TYPES or is_namespace(element)


def source(element: etree._Element) -> tuple[str | None, ...]:
    """Return the tag and the assigned device: a key that identifies the element."""
    alone = etree.Element("domain")
    etree.SubElement(alone, "devices").append(deepcopy(element))
    given = given_devices(alone)
    names = given.addresses | given.mdevs | given.vdpas | given.namespaces
    return (element.tag, *sorted(names))


def _resize(element: etree._Element, wanted: etree._Element) -> None:
    """Replace the sizes of a namespace that the document assigns already."""
    for tag in ("source", "target"):
        old, new = element.find(tag), wanted.find(tag)
        if old is not None and new is not None:
            element.replace(old, new)
    element.attrib.update(wanted.attrib)


def _element(device: AssignedDevice) -> etree._Element:
    element: etree._Element
    if device.dev_type == VDPA and device.vdpa_dev is not None:
        element = E.interface(E.source(dev=device.vdpa_dev), type="vdpa")
        return element
    managed = "yes" if device.managed else "no"
    if device.dev_type == SRIOV_VF and device.source == NEUTRON_PORT:
        address = E.address(type="pci", **dict(_attributes(device.address)))
        element = E.interface(E.source(address), type="hostdev", managed=managed)
        return element
    address = E.address(**dict(_attributes(device.address)))
    element = E.hostdev(E.source(address), mode="subsystem", type="pci", managed=managed)
    return element


def _attributes(address: str) -> Iterator[tuple[str, str]]:
    for name, digits in zip(LIMITS, parse_address(address), strict=True):
        yield name, f"0x{digits}"


def _read_address(element: etree._Element) -> str | None:
    """Return the address of the assigned PCI device; None if no host can assign it by a claim."""
    address = element.find("source/address")
    if address is None:
        raise BadDocument(f"<{element.tag} type={element.get('type')!r}> has no source address")
    if address.get("type", "pci") != "pci":
        return None
    # libvirt accepts an address without a domain (0), but never writes one.
    digits = [address.get(name, "0").removeprefix("0x") for name in LIMITS]
    if _is_beyond(digits[0]):
        return None
    try:
        return str(parse_address("{}:{}:{}.{}".format(*digits)))
    except BadAddress as error:
        raise BadDocument(f"address of a device: {error}") from error


def _is_beyond(domain: str) -> bool:
    """Return whether a PCI domain has more than 16 bits. Devices there are never offered."""
    try:
        return LIMITS["domain"] < int(domain, 16) <= _LAST_DOMAIN
    except ValueError:
        return False


def _read_mdev(element: etree._Element) -> str:
    uuid = _named(element, "source/address", "uuid")
    try:
        return str(UUID(uuid))
    except ValueError as error:
        raise BadDocument(f"<address uuid> of a mediated device is {uuid!r}") from error


def _read_vdpa(element: etree._Element) -> str:
    return _named(element, "source", "dev")


def _named(element: etree._Element, path: str, attribute: str) -> str:
    found = element.find(path)
    name = None if found is None else found.get(attribute)
    if not name:
        where = f"<{element.tag} type={element.get('type')!r}>"
        raise BadDocument(f"{where} has no {attribute!r} of its source")
    return name
