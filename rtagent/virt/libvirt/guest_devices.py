"""Devices in a guest's document, both ways: the elements that give a guest its devices, and the
devices that a document gives away. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import deepcopy

from lxml import etree
from lxml.builder import E

from rtagent.model.address import LIMITS, BadAddress, parse_address
from rtagent.model.base import Value
from rtagent.model.device import SRIOV_VF, VDPA, AssignedDevice
from rtagent.model.specific import SpecificUnit
from rtagent.pci.mdev import mdev_uuid
from rtagent.pci.request import NEUTRON_PORT
from rtagent.virt.libvirt.document import BadDocument
from rtagent.virt.libvirt.guest_buses import Near

#: Elements of ``<devices>`` that give a device of the host's, by their tag and type.
_KINDS = frozenset(
    {("hostdev", "pci"), ("hostdev", "mdev"), ("interface", "hostdev"), ("interface", "vdpa")}
)


class Given(Value, frozen=True, kw_only=True):
    """What a domain's document gives the guest, whole.

    :ivar addresses: of PCI devices. :ivar mdevs: uuids of mediated devices.
    :ivar vdpas: paths of the character devices of vDPA devices.
    """

    addresses: frozenset[str] = frozenset()
    mdevs: frozenset[str] = frozenset()
    vdpas: frozenset[str] = frozenset()


def device_elements(devices: Iterable[AssignedDevice]) -> tuple[etree._Element, ...]:
    """Children of ``<devices>``, one for each, in their order.

    A virtual function for a port is an interface, which libvirt can give an address of the
    network's; a physical one cannot be given any and is a plain device.
    """
    return tuple(_element(device) for device in devices)


def mdev_elements(node_uuid: str, units: Iterable[SpecificUnit]) -> tuple[etree._Element, ...]:
    """Children of ``<devices>`` for mediated devices, one for each unit."""
    return tuple(
        E.hostdev(
            E.source(E.address(uuid=mdev_uuid(node_uuid, unit.identifier))),
            mode="subsystem",
            type="mdev",
            model="vfio-pci",
        )
        for unit in units
    )


def mdev_document(node_uuid: str, unit: SpecificUnit) -> etree._Element:
    """The node device that is to be created for a unit before its guest is started."""
    uuid = mdev_uuid(node_uuid, unit.identifier)
    address, type_, _ = unit.identifier.split("/")
    parent = "pci_" + "_".join(parse_address(address))
    return E.device(
        E.name(f"mdev_{uuid.replace('-', '_')}_" + "_".join(parse_address(address))),
        E.parent(parent),
        E.capability(E.type(id=type_), E.uuid(uuid), type="mdev"),
    )


def put_devices(domain: etree._Element, elements: Iterable[etree._Element]) -> None:
    """Have a domain's document give the guest these devices and no others of their kinds.

    An element that gives one of them already stays as it is, with what its writer says besides (an
    interface's address on the network, say). Putting them again changes nothing.
    """
    wanted = {source(element): element for element in elements}
    parent = domain.find("devices")
    if parent is None:
        if not wanted:
            return
        parent = etree.SubElement(domain, "devices")
    for element in [each for each in parent if _gives(each)]:
        same = wanted.pop(source(element), None)
        if same is None:
            parent.remove(element)
        elif "managed" in same.attrib:
            element.set("managed", same.attrib["managed"])
    parent.extend(wanted.values())


def given_devices(domain: etree._Element) -> Given:
    """The devices that a domain's document names, whichever way.

    :raises BadDocument: an address is none.
    """
    sources = [
        *domain.iterfind("devices/hostdev[@type='pci']/source/address"),
        *domain.iterfind("devices/interface[@type='hostdev']/source/address[@type='pci']"),
    ]
    mdevs = domain.iterfind("devices/hostdev[@type='mdev']/source/address")
    vdpas = domain.iterfind("devices/interface[@type='vdpa']/source")
    return Given(
        addresses=frozenset(map(_read_address, sources)),
        mdevs=frozenset(each.get("uuid", "").lower() for each in mdevs),
        vdpas=frozenset(each.get("dev", "") for each in vdpas),
    )


def near(domain: etree._Element, devices: Iterable[AssignedDevice]) -> Iterator[Near]:
    """Elements that give a domain these devices, with the host's cell of each that knows it."""
    cells = {
        source(element): device.numa_node
        for device in devices
        for element in device_elements([device])
    }
    for element in domain.iterfind("devices/*"):
        cell = cells.get(source(element)) if _gives(element) else None
        if cell is not None:
            yield element, cell


def _gives(element: etree._Element) -> bool:
    """Whether it is of a kind that a claim's devices have."""
    return (element.tag, element.get("type")) in _KINDS


def source(element: etree._Element) -> tuple[str | None, ...]:
    """What it gives, and by which kind of element."""
    alone = etree.Element("domain")
    etree.SubElement(alone, "devices").append(deepcopy(element))
    given = given_devices(alone)
    return (element.tag, *sorted(given.addresses | given.mdevs | given.vdpas))


def _element(device: AssignedDevice) -> etree._Element:
    if device.dev_type == VDPA and device.vdpa_dev is not None:
        return E.interface(E.source(dev=device.vdpa_dev), type="vdpa")
    managed = "yes" if device.managed else "no"
    if device.dev_type == SRIOV_VF and device.source == NEUTRON_PORT:
        address = E.address(type="pci", **dict(_attributes(device.address)))
        return E.interface(E.source(address), type="hostdev", managed=managed)
    address = E.address(**dict(_attributes(device.address)))
    return E.hostdev(E.source(address), mode="subsystem", type="pci", managed=managed)


def _attributes(address: str) -> Iterator[tuple[str, str]]:
    for name, digits in zip(LIMITS, parse_address(address), strict=True):
        yield name, f"0x{digits}"


def _read_address(element: etree._Element) -> str:
    # libvirt leaves a domain of zero out of what it is given, never out of what it writes.
    digits = [element.get(name, "0").removeprefix("0x") for name in LIMITS]
    try:
        return str(parse_address("{}:{}:{}.{}".format(*digits)))
    except BadAddress as error:
        raise BadDocument(f"the address of a device: {error}") from error
