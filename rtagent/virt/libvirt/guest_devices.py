"""Devices in domain documents: build the elements that assign devices. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lxml import etree
from lxml.builder import E

from rtagent.model.address import LIMITS, parse_address
from rtagent.model.assigned_resources import AssignedResource
from rtagent.model.device import SRIOV_VF, VDPA, AssignedDevice
from rtagent.pci.mdev import mdev_uuid
from rtagent.pci.requests import NEUTRON_PORT
from rtagent.virt.libvirt.given_devices import Given, assigns, element_devices
from rtagent.virt.libvirt.guest_buses import Near


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
    address, for instance), and disks on an NVMe controller or a vDPA device stay disks. A macvtap
    interface stays: it names an interface, and a claim has addresses. Adding the same devices again
    changes nothing.
    """
    wanted = {element_devices(element): element for element in elements}
    parent = domain.find("devices")
    if parent is None:
        if not wanted:
            return
        parent = etree.SubElement(domain, "devices")
    present = set[Given]()
    for element in [each for each in parent if assigns(each)]:
        given = element_devices(element)
        same = wanted.get(given)
        if given.interfaces:
            continue
        if same is None or element.tag not in (same.tag, "disk"):
            parent.remove(element)
            continue
        present.add(given)
        if element.tag == same.tag:
            _update(element, same)
    parent.extend(element for given, element in wanted.items() if given not in present)


def near(domain: etree._Element, devices: Iterable[AssignedDevice]) -> Iterator[Near]:
    """Yield the elements that assign these devices, with the host cell of each that has one."""
    cells = {
        (element.tag, element_devices(element)): device.numa_node
        for device in devices
        for element in device_elements([device])
    }
    for element in domain.iterfind("devices/*"):
        cell = cells.get((element.tag, element_devices(element))) if assigns(element) else None
        if cell is not None:
            yield element, cell


def _update(element: etree._Element, wanted: etree._Element) -> None:
    """Replace what the claim determines of a device that the document assigns already."""
    if "managed" in wanted.attrib:
        element.set("managed", wanted.attrib["managed"])
    if element.tag != "memory":
        return
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
