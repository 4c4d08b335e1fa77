"""Parse documents of node devices and combine them into devices. Pure."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from immutables import Map
from lxml import etree
from msgspec.structs import replace

from rtagent.model.address import LIMITS, BadAddress, make_address
from rtagent.model.base import Value, grouped
from rtagent.model.device import (
    SRIOV_PF,
    SRIOV_VF,
    STANDARD,
    VDPA,
    Device,
    Mdev,
    MdevType,
    RootPorts,
)
from rtagent.pci.parsing import InvalidValue, parse_hex_id
from rtagent.virt.libvirt.document import BadDocument, attribute, integer, parse, pci_address, text

#: Bridges are not endpoints and are never assigned to a guest.
_BRIDGES = frozenset({"pci-bridge", "cardbus-bridge"})
#: The base class of bridges. The subclass 80, "other bridge", has endpoints, such as NVIDIA's
#: NVSwitch, which a guest gets with its GPUs.
_BRIDGE_CLASS = re.compile(r"0x06(?!80)")
#: How libvirt's names of PCI devices begin.
_PCI_NAME = "pci_"
#: libvirt's name of the host itself: the parent of the devices of its root complexes.
_COMPUTER = "computer"

#: How Linux names the ports of an embedded switch, and udev their interfaces after them: of a
#: virtual function (pf0vf1), a subfunction (pf0sf1), the host (pf0hpf) or a physical function of
#: the host (pf0).
_REPRESENTOR = re.compile(r"pf\d+([vs]f\d+|hpf)$|(^|n)pf\d+$")
#: What is added to the name of the physical function's interface: for a representor (_0, r0), for
#: another port of the same function (d1), for a subfunction (s88), or for a partition of InfiniBand
#: (.8001).
_ADDED = re.compile(r"(_|r|d|s)\d+$|\.[0-9a-f]+$")
#: What udev adds to the name of the physical function's own port.
_OWN_PORT = re.compile(r"np\d+$")
#: A name that udev has not changed.
_KERNEL_NAME = re.compile(r"eth\d+$")
#: A MAC that no manufacturer has assigned: it has the second bit.
_LOCAL_MAC = re.compile(r".[2367abef]")

#: The largest number of a cell, a group or instances: what fits into the columns of a database.
_MOST = 2**31 - 1


class NetNode(Value, frozen=True, kw_only=True):
    """A network interface of the host.

    :ivar features: hardware offloads, by libvirt's names.
    """

    interface: str
    mac: str | None
    features: tuple[str, ...]


class VdpaNode(Value, frozen=True, kw_only=True):
    """A vDPA device. :ivar chardev: its path; None: the host itself uses it (virtio_vdpa)."""

    chardev: str | None


class MdevNode(Value, frozen=True, kw_only=True):
    """An existing mediated device."""

    uuid: str | None
    type: str


class BridgeNode(Value, frozen=True, kw_only=True):
    """A PCI bridge, such as a root port or a port of a switch."""

    address: str


Facts = Device | BridgeNode | NetNode | VdpaNode | MdevNode


class NodeDevice(Value, frozen=True, kw_only=True):
    """One parsed document.

    :ivar parent: name of the device of which this device is a part.
    :ivar facts: the facts about the device in this document, without those in other documents.
    """

    name: str
    parent: str
    facts: Facts


def parse_node_device(document: str) -> NodeDevice | None:
    """Parse one document. Return None for a type of device that is neither assigned to a guest nor
    the parent of such a device.

    :raises BadDocument: names the missing or invalid element.
    """
    root = parse(document)
    if root.tag != "device":
        raise BadDocument(f"<{root.tag}> where <device> is expected")
    for capability in root.iterfind("capability"):
        read = _READERS.get(capability.get("type", ""))
        facts = read(capability) if read is not None else None
        if facts is not None:
            return NodeDevice(name=text(root, "name"), parent=text(root, "parent", ""), facts=facts)
    return None


def devices(nodes: Mapping[str, NodeDevice]) -> tuple[Device, ...]:
    """Return the PCI devices, completed from their parts and their physical functions.

    :param nodes: by name.
    """
    nets, bound = _nets(nodes), dict[str, VdpaNode]()
    for _, node in sorted(nodes.items()):
        if isinstance(node.facts, VdpaNode):
            bound.setdefault(node.parent, node.facts)
    alone = {
        node.facts.address: _with_parts(node.facts, _own(nets.get(name, ())), bound.get(name))
        for name, node in sorted(nodes.items())
        if isinstance(node.facts, Device)
    }
    return tuple(_with_parent(device, alone) for device in alone.values())


def mdevs(nodes: Mapping[str, NodeDevice]) -> tuple[Mdev, ...]:
    """Return the mediated devices of PCI devices."""
    parents = {name: node.facts for name, node in nodes.items() if isinstance(node.facts, Device)}
    return tuple(
        Mdev(uuid=node.facts.uuid, type=node.facts.type, parent_addr=parents[node.parent].address)
        for _, node in sorted(nodes.items())
        if isinstance(node.facts, MdevNode) and node.parent in parents
    )


def other_mdevs(nodes: Mapping[str, NodeDevice]) -> frozenset[str]:
    """Return the uuids of the mediated devices whose parent is no PCI device, by its name: a
    cryptographic adapter of a mainframe, for example, or a driver alone.
    """
    return frozenset(
        node.facts.uuid
        for node in nodes.values()
        if isinstance(node.facts, MdevNode)
        and node.facts.uuid is not None
        and not node.parent.startswith(_PCI_NAME)
    )


def vdpas(nodes: Mapping[str, NodeDevice]) -> Mapping[str, str | None]:
    """Return the address of the PCI device that has each vDPA device, by path; None: a program
    (VDUSE) or a driver alone has it. One of a PCI device that is not known is left out.
    """
    addresses = {
        n: node.facts.address for n, node in nodes.items() if isinstance(node.facts, Device)
    }
    return {
        node.facts.chardev: addresses.get(node.parent)
        for node in nodes.values()
        if isinstance(node.facts, VdpaNode)
        and node.facts.chardev is not None
        and (node.parent in addresses or not node.parent.startswith(_PCI_NAME))
    }


def root_ports(nodes: Mapping[str, NodeDevice]) -> RootPorts:
    """Return the root ports: the first bridge on the path from the host to each device."""
    bridges = {
        n: node.facts.address for n, node in nodes.items() if isinstance(node.facts, BridgeNode)
    }
    found = {
        node.facts.address: _root_port(node.parent, nodes, bridges)
        for node in nodes.values()
        if isinstance(node.facts, Device)
    }
    return Map({address: port for address, port in found.items() if port is not None})


def _root_port(
    name: str, nodes: Mapping[str, NodeDevice], bridges: Mapping[str, str]
) -> str | None:
    """Follow the parents. None: there is no bridge, or one of them is not known."""
    port, passed = None, set[str]()
    while name in bridges and name not in passed:
        passed.add(name)
        port, name = bridges[name], nodes[name].parent
    return port if name == _COMPUTER else None


def doubtful_interfaces(nodes: Mapping[str, NodeDevice]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the address of each PCI device of which it is unknown which interface is its own, with
    the names of those that come into question.
    """
    nets = _nets(nodes)
    for name, node in sorted(nodes.items()):
        if name in nets and isinstance(node.facts, Device) and _own(nets[name]) is None:
            yield node.facts.address, tuple(sorted(net.interface for net in nets[name]))


def _nets(nodes: Mapping[str, NodeDevice]) -> Mapping[str, Sequence[NetNode]]:
    """Return the network interfaces by the name of their parent."""
    return grouped(
        (node.parent, node.facts) for node in nodes.values() if isinstance(node.facts, NetNode)
    )


def _own(nets: Sequence[NetNode]) -> NetNode | None:
    """Return the interface of a function itself; None: it has none, or it is unknown which.

    In switchdev mode, the representors of the virtual functions are parts of their physical
    function, too. libvirt does not say which interfaces are representors, so names and MACs tell: a
    representor has the name of a switch port, or one that is derived from its physical
    function's. If udev did not rename it, it has a name of the kernel. Most drivers give it a
    random MAC.
    """
    named = [net for net in nets if not _REPRESENTOR.search(net.interface)]
    names = {net.interface for net in named}
    stems = names | {_OWN_PORT.sub("", name) for name in names}
    first = [net for net in named if _ADDED.sub("", net.interface) not in stems - {net.interface}]
    renamed = [net for net in first if not _KERNEL_NAME.match(net.interface)] or first
    assigned = [net for net in first if net.mac and not _LOCAL_MAC.match(net.mac)] or first
    own = [net for net in renamed if net in assigned]
    return own[0] if len(own) == 1 else None


def _with_parts(device: Device, net: NetNode | None, vdpa: VdpaNode | None) -> Device:
    if net is not None:
        device = replace(
            device,
            net_name=net.interface,
            mac=net.mac,
            capabilities={**device.capabilities, "network": net.features},
        )
    if vdpa is not None:
        # Another device with one below it stays what it is: a subfunction of a physical function,
        # for example, is no PCI device of its own.
        dev_type = VDPA if device.dev_type == SRIOV_VF else device.dev_type
        device = replace(device, dev_type=dev_type, vdpa_dev=vdpa.chardev)
    return device


def _with_parent(device: Device, alone: Mapping[str, Device]) -> Device:
    parent = alone.get(device.parent_addr or "")
    if parent is None:
        return device
    serial = device.card_serial_number or parent.card_serial_number
    return replace(device, parent_ifname=parent.net_name, card_serial_number=serial)


def _pci(capability: etree._Element) -> Device | BridgeNode | None:
    nested = {each.get("type", ""): each for each in capability.iterfind("capability")}
    if _BRIDGE_CLASS.match(text(capability, "class", "")) or nested.keys() & _BRIDGES:
        return _bridge(capability)
    if integer(text(capability, "domain"), "<domain>") > LIMITS["domain"]:
        # As of an NVMe controller behind Intel's VMD: neither Nova nor Placement can name it.
        return None
    address = _address(capability)
    parent = _parent_addr(nested.get("phys_function"))
    return Device(
        address=address,
        vendor_id=_id(capability, "vendor"),
        product_id=_id(capability, "product"),
        dev_type=_dev_type(nested, parent),
        parent_addr=parent,
        numa_node=_number(capability.find("numa"), "node"),
        iommu_group=_number(capability.find("iommuGroup"), "number"),
        card_serial_number=_serial(nested.get("vpd")),
        mdev_types=_mdev_types(nested.get("mdev_types")),
    )


def _bridge(capability: etree._Element) -> BridgeNode | None:
    """A bridge is never assigned to a guest, so one with an unusual address is no problem."""
    try:
        return BridgeNode(address=_address(capability))
    except BadDocument:
        return None


def _address(capability: etree._Element) -> str:
    fields = ("domain", "bus", "slot", "function")
    try:
        return str(make_address(*(integer(text(capability, f), f"<{f}>") for f in fields)))
    except BadAddress as error:
        raise BadDocument(str(error)) from error


def _dev_type(nested: Mapping[str, etree._Element], parent: str | None) -> str:
    if parent is not None:
        return SRIOV_VF
    functions = nested.get("virt_functions")
    if functions is not None and (
        functions.find("address") is not None or functions.get("maxCount", "1") != "0"
    ):
        return SRIOV_PF
    return STANDARD


def _parent_addr(capability: etree._Element | None) -> str | None:
    address = None if capability is None else capability.find("address")
    if address is None:
        return None
    return pci_address(address, "address of the physical function")


def _id(capability: etree._Element, tag: str) -> str:
    element = capability.find(tag)
    written = "" if element is None else element.get("id", "")
    try:
        return parse_hex_id(written)
    except InvalidValue as error:
        raise BadDocument(f"<{tag} id> is {written!r}: it {error}") from error


def _number(element: etree._Element | None, name: str) -> int | None:
    """Return the number; None when it is absent or -1."""
    written = None if element is None else element.get(name)
    if element is None or written is None or written.strip() == "-1":
        return None
    return integer(written, f"<{element.tag} {name}>", _MOST)


def _serial(vpd: etree._Element | None) -> str | None:
    if vpd is None:
        return None
    return text(vpd, "fields[@access='readonly']/serial_number", "") or None


def _mdev_types(capability: etree._Element | None) -> tuple[MdevType, ...]:
    if capability is None:
        return ()
    return tuple(
        MdevType(
            id=attribute(each, "id"),
            name=text(each, "name", ""),
            device_api=text(each, "deviceAPI"),
            available_instances=integer(
                text(each, "availableInstances"), "<availableInstances>", _MOST
            ),
        )
        for each in capability.iterfind("type")
    )


def _net(capability: etree._Element) -> NetNode:
    features = (feature.get("name", "") for feature in capability.iterfind("feature"))
    return NetNode(
        interface=text(capability, "interface"),
        mac=text(capability, "address", "").lower() or None,
        features=tuple(sorted(features)),
    )


def _vdpa(capability: etree._Element) -> VdpaNode:
    return VdpaNode(chardev=text(capability, "chardev", "") or None)


def _mdev(capability: etree._Element) -> MdevNode:
    kind = capability.find("type")
    return MdevNode(
        uuid=text(capability, "uuid", "").lower() or None,
        type="" if kind is None else attribute(kind, "id"),
    )


_READERS: Mapping[str, Callable[[etree._Element], Facts | None]] = {
    "pci": _pci,
    "net": _net,
    "vdpa": _vdpa,
    "mdev": _mdev,
}
