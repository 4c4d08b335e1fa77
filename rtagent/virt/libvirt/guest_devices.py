"""Devices in domain documents: build the elements that assign devices. Pure.

For NUMA affinity inside the guest, each guest cell with devices gets a PCI expander bus (QEMU's
``pxb-pcie``), where the machine type has such buses. Controllers added here carry an alias, so that
adding them again changes nothing and another claim's buses replace them.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

from lxml import etree

from rtagent.model.address import LIMITS, parse_address
from rtagent.model.assignment import AssignedResource, Assignment
from rtagent.model.claim import Replacement
from rtagent.model.device import SRIOV_VF, VDPA, AssignedDevice
from rtagent.pci.mdev import mdev_uuid
from rtagent.pci.requests import NEUTRON_PORT
from rtagent.virt.libvirt.document import BadDocument, E, integer, prefixed
from rtagent.virt.libvirt.given_devices import element_devices, pci_sources
from rtagent.virt.libvirt.guest_numa import replace_child

#: Prefix of the aliases of our controllers; libvirt keeps aliases that begin with ``ua-``.
ALIAS = "ua-rtagent-"
#: Machine types that support expander buses.
_MACHINES = ("q35", "pc-q35-")
#: Upper bound of bus numbers and of controller indices, exclusive.
_END = 256
#: The guest's other buses have numbers below this.
_LOWEST = 64
#: Ports of one bus.
_SLOTS = 32

#: A device's element in the document and the device's host cell.
Near = tuple[etree._Element, int]


def put_buses(domain: etree._Element, assignment: Assignment, devices: Iterable[Near]) -> None:
    """Put each device on a bus of the guest cell that is placed on the device's host cell.

    Does nothing for a guest with one cell, for a device on none of the guest's host cells, for a
    device with an address in the document, or when the document has expander buses of its own.

    :raises BadDocument: a number is invalid.
    """
    known, parent = _remove(domain), domain.find("devices")
    cells = {cell.id: number for number, cell in enumerate(assignment.cells)}
    if parent is None or len(cells) < 2 or not _supports_buses(domain):
        return
    groups: dict[int, list[etree._Element]] = {}
    for element, host_cell in devices:
        if host_cell in cells and element.find("address") is None:
            groups.setdefault(cells[host_cell], []).append(element)
    index, end = _indices(domain, known), _END
    for cell, elements in sorted(groups.items()):
        end -= len(elements) + 1
        if end >= _LOWEST and len(elements) <= _SLOTS:
            parent.extend(_bus(cell, end, elements, index))


def _bus(
    cell: int, number: int, elements: Iterable[etree._Element], index: _Indices
) -> Iterator[etree._Element]:
    """Yield a bus and a port for each device, and put the devices on the ports.

    :param number: the bus number; the numbers of its ports follow.
    """
    name = f"cell{cell}"
    bus = index.of(name)
    target = E.target(E.node(str(cell)), busNr=str(number))
    yield _controller(name, bus, "pcie-expander-bus", target)
    for slot, element in enumerate(elements):
        port_name = f"{name}-port{slot}"
        port = index.of(port_name)
        yield _controller(port_name, port, "pcie-root-port", _address(bus, slot))
        element.append(_address(port, 0))


class _Indices:
    """Indices of controllers. :param known: previous indices of our controllers, by alias."""

    def __init__(self, known: Mapping[str, int], taken: Iterable[int]) -> None:
        self._known = known
        self._free = iter(range(max((0, *known.values(), *taken)) + 1, _END))

    def of(self, name: str) -> int:
        return self._known.get(ALIAS + name) or next(self._free)


def _indices(domain: etree._Element, known: Mapping[str, int]) -> _Indices:
    """libvirt adds the controller of a bus that only the address of a device names."""
    controllers = domain.iterfind("devices/controller[@type='pci']")
    addresses = domain.iterfind("devices/*/address[@type='pci']")
    return _Indices(known, (*map(_index, controllers), *map(_bus_number, addresses)))


def _index(controller: etree._Element) -> int:
    return integer(controller.get("index", "0"), "<controller index>", _END)


def _remove(domain: etree._Element) -> dict[str, int]:
    """Remove our controllers and the device addresses on them; return their indices by alias."""
    known: dict[str, int] = {}
    for controller in domain.findall("devices/controller[@type='pci']"):
        alias = controller.find("alias")
        name = "" if alias is None else alias.get("name", "")
        if name.startswith(ALIAS):
            known[name] = _index(controller)
            _drop(controller)
    for address in domain.findall("devices/*/address[@type='pci']"):
        if _bus_number(address) in known.values():
            _drop(address)
    return known


def _bus_number(address: etree._Element) -> int:
    return prefixed(address.get("bus", "0"), "<address bus>")


def _drop(element: etree._Element) -> None:
    parent = element.getparent()
    assert parent is not None
    parent.remove(element)


def _supports_buses(domain: etree._Element) -> bool:
    machine = domain.find("os/type")
    own = domain.find("devices/controller[@model='pcie-expander-bus']")
    return own is None and machine is not None and machine.get("machine", "").startswith(_MACHINES)


def _controller(name: str, index: int, model: str, inner: etree._Element) -> etree._Element:
    alias = E.alias(name=ALIAS + name)
    return E.controller(alias, inner, type="pci", index=str(index), model=model)


def _address(bus: int, slot: int) -> etree._Element:
    return E.address(
        type="pci", domain="0x0000", bus=f"0x{bus:02x}", slot=f"0x{slot:02x}", function="0x0"
    )


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
