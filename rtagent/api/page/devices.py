"""Devices on the host map: by NUMA node, root port and bus, functions under their devices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from rtagent.api.page.owners import Owner
from rtagent.api.pci import Device
from rtagent.api.resources import Resource
from rtagent.model.base import Value
from rtagent.model.device import RootPorts
from rtagent.pci.device_states import ALLOCATED, AVAILABLE, CLAIMED

#: Parts of a bus that leave space for others on its line.
FEW_PARTS = 4


class Unit(Value, frozen=True, kw_only=True):
    """What one owner can have: a device, a virtual function, a mediated device.

    :ivar key: unique on the page. :ivar short: a name for a small box.
    :ivar use: "owned", "free", or "unavailable". :ivar label: all about it in words.
    """

    key: str
    short: str
    use: str
    status: str
    label: str
    owner: Owner | None = None


class Function(Value, frozen=True, kw_only=True):
    """A device of the host.

    :ivar unit: None: it cannot be assigned itself, only what it makes.
    :ivar about: vendor and product, and the name of its network interface.
    :ivar parts: virtual functions and mediated devices of it.
    """

    address: str
    about: str
    group: int | None
    unit: Unit | None
    parts: tuple[Unit, ...]


class Bus(Value, frozen=True, kw_only=True):
    """The devices of one bus. :ivar name: domain and bus, for example ``0000:3b``."""

    name: str
    functions: tuple[Function, ...]


class Port(Value, frozen=True, kw_only=True):
    """The buses behind one root port.

    :ivar address: None: a bus that is behind no root port, or behind one that is not known.
    """

    address: str | None
    buses: tuple[Bus, ...]

    @property
    def many(self) -> bool:
        """Whether a function has so many parts that the port needs the whole width."""
        functions = (each for bus in self.buses for each in bus.functions)
        return any(len(each.parts) > FEW_PARTS for each in functions)


class Tree(Value, frozen=True, kw_only=True):
    """The root ports of a NUMA node. :ivar free: units that claims can have, of :ivar total:."""

    ports: tuple[Port, ...]
    free: int
    total: int


#: The functions of each bus.
_Buses = dict[str, list[Function]]


def trees(
    devices: Iterable[Device],
    resources: Iterable[Resource],
    owners: Mapping[str, Owner],
    ports: RootPorts,
) -> Mapping[int | None, Tree]:
    """Return the devices by NUMA node; None: the device reports none."""
    by_address = {each.address: each for each in devices}
    parts: dict[str, list[Unit]] = {}
    for device in by_address.values():
        if device.parent_addr:
            parts.setdefault(device.parent_addr, []).append(_device(device, owners))
    for number, resource in enumerate(resources):
        if resource.parent_addr:
            parts.setdefault(resource.parent_addr, []).append(_mdev(number, resource, owners))
    # All devices of a bus are behind the same port, also those that are not known any more.
    by_bus = {_bus(address): port for address, port in ports.items()}
    nodes: dict[int | None, _Buses] = {}
    for address in sorted({*parts, *(a for a, d in by_address.items() if not d.parent_addr)}):
        found = by_address.get(address)
        node = found.numa_node if found else _node(address, by_address)
        function = _function(address, found, parts.get(address, []), owners)
        nodes.setdefault(node, {}).setdefault(_bus(address), []).append(function)
    return {node: _tree(buses, by_bus) for node, buses in nodes.items()}


def host_units(
    resources: Iterable[Resource], owners: Mapping[str, Owner]
) -> Mapping[str, tuple[Unit, ...]]:
    """Return the units of the host itself by resource class: persistent memory."""
    found: dict[str, list[Unit]] = {}
    for number, each in enumerate(resources):
        if not each.parent_addr:
            found.setdefault(each.resource_class, []).append(_mdev(number, each, owners))
    return {name: tuple(units) for name, units in found.items()}


def _bus(address: str) -> str:
    """Domain and bus."""
    return address[:7]


def _tree(buses: _Buses, ports: Mapping[str, str]) -> Tree:
    units = [unit for each in buses.values() for unit in _units(each)]
    behind: dict[str, list[Bus]] = {}
    for name, functions in buses.items():
        found = Bus(name=name, functions=tuple(functions))
        behind.setdefault(ports.get(name, name), []).append(found)
    made = (Port(address=ports.get(found[0].name), buses=tuple(found)) for found in behind.values())
    return Tree(
        ports=tuple(sorted(made, key=lambda port: port.many)),
        free=sum(unit.use == "free" for unit in units),
        total=len(units),
    )


def _units(functions: Iterable[Function]) -> Iterator[Unit]:
    for function in functions:
        if function.unit is not None:
            yield function.unit
        yield from function.parts


def _function(
    address: str, found: Device | None, parts: list[Unit], owners: Mapping[str, Owner]
) -> Function:
    if found is None:
        return Function(
            address=address,
            about="not assignable itself",
            group=None,
            unit=None,
            parts=tuple(parts),
        )
    return Function(
        address=address,
        about=_about(found),
        group=found.iommu_group,
        unit=_device(found, owners),
        parts=tuple(parts),
    )


def _node(address: str, devices: Mapping[str, Device]) -> int | None:
    """The NUMA node of a device that only its virtual functions are listed of."""
    nodes = {each.numa_node for each in devices.values() if each.parent_addr == address}
    return min((each for each in nodes if each is not None), default=None)


def _about(device: Device) -> str:
    name = f" {device.net_name}" if device.net_name else ""
    return f"{device.vendor_id}:{device.product_id}{name}"


def _device(device: Device, owners: Mapping[str, Owner]) -> Unit:
    owner = owners.get(device.owner_id) if device.owner_id else None
    group = "" if device.iommu_group is None else f", IOMMU group {device.iommu_group}"
    why = f" ({device.reason})" if device.reason else ""
    also = f"; also used by {', '.join(device.others)}" if device.others else ""
    short, about = device.address[-4:], f"{device.dev_type} {device.address}, {_about(device)}"
    return Unit(
        key=f"dev-{device.address}",
        short=short,
        use=_use(device.status, owner),
        status=device.status,
        label=f"{_whose(short, owner)}{device.status}{why}{also}; {about}{group}",
        owner=owner,
    )


def _whose(short: str, owner: Owner | None) -> str:
    """The beginning of a label: what is visible of the unit, and its owner."""
    return f"{short} {owner.badge.code}: {owner.name}, " if owner else f"{short}: "


def _mdev(number: int, resource: Resource, owners: Mapping[str, Owner]) -> Unit:
    owner = owners.get(resource.owner_id) if resource.owner_id else None
    name, where = resource.identifier, resource.parent_addr
    short = name.rpartition("/")[2] if where else name
    gone = "" if resource.present else " (gone from the host)"
    about = f"{resource.resource_class} {name}{f' of {where}' if where else ''}"
    return Unit(
        key=f"res-{number}",
        short=short,
        use=_use(resource.status, owner),
        status=resource.status,
        label=f"{_whose(short, owner)}{resource.status}{gone}; {about}",
        owner=owner,
    )


def _use(status: str, owner: Owner | None) -> str:
    if owner is not None or status in (ALLOCATED, CLAIMED):
        return "owned"
    return "free" if status == AVAILABLE else "unavailable"
