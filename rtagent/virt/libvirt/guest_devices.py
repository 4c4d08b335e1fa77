"""Devices in domain documents: build the elements that assign devices. Pure."""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

from lxml import etree

from rtagent.model.address import LIMITS, parse_address
from rtagent.model.assignment import AssignedResource
from rtagent.model.claim import Replacement
from rtagent.model.device import SRIOV_VF, VDPA, AssignedDevice
from rtagent.pci.mdev import mdev_uuid
from rtagent.pci.requests import NEUTRON_PORT
from rtagent.virt.libvirt.document import BadDocument, E
from rtagent.virt.libvirt.given_devices import element_devices, pci_sources
from rtagent.virt.libvirt.guest_buses import Near
from rtagent.virt.libvirt.guest_numa import replace_child

_Form = tuple[str, str | None]
#: Tag and type of the children of ``<devices>`` with PCI devices that are passed through: those for
#: which libvirt can bind the device to a driver and back, and all.
_MANAGED = frozenset({("hostdev", "pci"), ("interface", "hostdev")})
_PASSED_THROUGH = _MANAGED | {("interface", "vdpa")}
#: Of disks that are a host device, and not an image.
_NVME = ("disk", "nvme")
_DISKS = frozenset({_NVME, ("disk", "vhostvdpa")})
#: Of devices in whose place the guest gets another one of the claim.
_REPLACED = frozenset({("hostdev", "mdev"), ("memory", None)})


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
    return E.device(
        E.name(f"mdev_{uuid.replace('-', '_')}_" + "_".join(parse_address(address))),
        E.parent(parent),
        E.capability(E.type(id=type_), E.uuid(uuid), type="mdev"),
    )


def move_devices(
    domain: etree._Element, replaced: Iterable[Replacement], own: Container[str]
) -> None:
    """Put the addresses after a move into the document of a guest before it. All else stays, so the
    guest sees each PCI device where it saw the one that it replaces.

    :param own: addresses of the guest's devices. A document of these alone is of a guest after it.
    :raises BadDocument: an address is invalid.
    """
    after: dict[str, str] = {}
    for each in replaced:
        gone = (address for address in each.before if address not in each.after)
        new = (address for address in each.after if address not in each.before)
        after.update(zip(gone, new, strict=False))
    sources = list(pci_sources(domain))
    if any(address in after and address not in own for _, address in sources):
        for element, address in sources:
            element.attrib.update(dict(_attributes(after.get(address, address))))


def put_devices(
    domain: etree._Element,
    elements: Iterable[etree._Element],
    devices: Iterable[AssignedDevice] = (),
) -> None:
    """Make a domain document assign these devices, and no others.

    An element that assigns one of them already stays, with its other content (an interface's MAC
    address, for instance) and in its form: a disk on an NVMe controller, a macvtap interface.
    Adding the same devices again changes nothing.

    :param elements: a child of ``<devices>`` for each. :param devices: the PCI devices among them.
    :raises BadDocument: a name is invalid, or an image of a disk is on another device.
    """
    aliases = _aliases(devices)
    wanted = {name: each for each in elements for name in _names(each, aliases)}
    parent = domain.find("devices")
    if parent is None:
        if not wanted:
            return
        parent = etree.SubElement(domain, "devices")
    present, others = set[str](), list[etree._Element]()
    for element in parent:
        names = _names(element, aliases)
        # Several disks can be namespaces of one NVMe controller.
        if names <= wanted.keys() and (element.tag == "disk" or not names & present):
            for name in names:
                _renew(element, wanted[name])
            present |= names
        else:
            others.append(element)
    missing = [element for name, element in wanted.items() if name not in present]
    for element in others:
        form = _form(element)
        new = next((each for each in missing if _replaces(each, element)), None)
        if new is not None:
            missing.remove(new)
            _renew(element, new)
        elif element.tag != "disk" or form in _DISKS:
            parent.remove(element)
        else:
            where = ", ".join(sorted(names))
            raise BadDocument(f"a disk has images on {where}, which the claim does not have for it")
    parent.extend(missing)


def near(domain: etree._Element, devices: Sequence[AssignedDevice]) -> Iterator[Near]:
    """Yield the elements that pass devices through, with the host cell of each that has one."""
    aliases = _aliases(devices)
    cells = {device.address: device.numa_node for device in devices}
    for element in domain.iterfind("devices/*"):
        for name in _names(element, aliases) if _form(element) in _PASSED_THROUGH else ():
            cell = cells.get(name)
            if cell is not None:
                yield element, cell


def _replaces(new: etree._Element, old: etree._Element) -> bool:
    """Return whether the guest sees one device where it saw the other. A mediated device of another
    model is another device, while a namespace is the same memory in every model."""
    form = _form(new)
    same = form == _form(old) and form in _REPLACED
    return same and (new.tag == "memory" or new.get("model") == old.get("model"))


def _form(element: etree._Element) -> _Form:
    return str(element.tag), element.get("type")


def _aliases(devices: Iterable[AssignedDevice]) -> dict[str, str]:
    """Return the addresses of devices by their other names."""
    names = ((name, each.address) for each in devices for name in (each.vdpa_dev, each.net_name))
    return {name: address for name, address in names if isinstance(name, str)}


def _names(element: etree._Element, aliases: Mapping[str, str]) -> frozenset[str]:
    """Return the names of the devices that an element assigns, the addresses of PCI devices."""
    return frozenset(aliases.get(name, name) for name in element_devices(element).names)


def _renew(element: etree._Element, new: etree._Element) -> None:
    """Replace what the claim determines of a device in a document."""
    form, source = _form(element), element.find("source")
    carrier = element if form in _MANAGED else source if form == _NVME else None
    if carrier is not None and "managed" in new.attrib:
        carrier.set("managed", new.attrib["managed"])
    if form not in _REPLACED or source is None:
        return
    if element.get("model") != new.get("model"):  # a namespace as virtio-pmem
        replace_child(source, "path", new.find("source/path"))
        return
    element.attrib.update(new.attrib)
    for tag in ("source", "target"):
        replace_child(element, tag, new.find(tag))


def _element(device: AssignedDevice) -> etree._Element:
    if device.dev_type == VDPA and device.vdpa_dev is not None:
        return E.interface(E.source(dev=device.vdpa_dev), type="vdpa")
    managed, address = "yes" if device.managed else "no", dict(_attributes(device.address))
    if device.dev_type == SRIOV_VF and device.source == NEUTRON_PORT:
        source = E.source(E.address(type="pci", **address))
        return E.interface(source, type="hostdev", managed=managed)
    source = E.source(E.address(**address))
    return E.hostdev(source, mode="subsystem", type="pci", managed=managed)


def _attributes(address: str) -> Iterator[tuple[str, str]]:
    for name, digits in zip(LIMITS, parse_address(address), strict=True):
        yield name, f"0x{digits}"
