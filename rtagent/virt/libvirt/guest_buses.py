"""NUMA affinity of devices inside the guest: a PCI expander bus (QEMU's ``pxb-pcie``) for each
guest cell with devices, where the machine type has such buses. Pure.

Controllers added here carry an alias, so that adding them again changes nothing and another
claim's buses replace them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from lxml import etree

from rtagent.model.assignment import Assignment
from rtagent.virt.libvirt.document import E, integer, prefixed

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
