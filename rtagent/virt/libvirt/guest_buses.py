"""At which of its cells a guest sees a device: a bus for each cell that has one, where the machine
type knows such buses (QEMU's ``pxb-pcie``). Pure.

What is put into a document is known again by its alias, so that putting it again changes nothing,
and another claim's buses take its place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from lxml import etree
from lxml.builder import E

from rtagent.model.assignment import Assignment

#: Begins the aliases of our controllers; libvirt keeps those that begin with ``ua-``.
ALIAS = "ua-rtagent-"
#: Machine types with buses that are at a cell.
_MACHINES = ("q35", "pc-q35-")
#: Bus numbers, and controllers of the guest's, end here.
_END = 256
#: Below this the guest's other buses are numbered.
_LOWEST = 64
#: How many ports a bus has.
_SLOTS = 32

#: A device's element in the document, and the host's cell that the device is at.
Near = tuple[etree._Element, int]


def put_buses(domain: etree._Element, assignment: Assignment, devices: Iterable[Near]) -> None:
    """Have each device sit on a bus of the guest's cell that is on the device's own cell.

    Not where it would tell the guest nothing (it has one cell, or the device is at none of its),
    nor where the document says already where a device sits, or has such buses of its own.
    """
    known, parent = _remove(domain), domain.find("devices")
    cells = {cell.id: number for number, cell in enumerate(assignment.cells)}
    if parent is None or len(cells) < 2 or not _knows_buses(domain):
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
    """A bus, and a port for each device, which is put on it. :param number: of the bus; its ports'
    follow."""
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
    """Indices of controllers. :param known: of ours, as they were before, by alias."""

    def __init__(self, known: Mapping[str, int], taken: Iterable[int]) -> None:
        self._known = known
        self._free = iter(range(max((0, *known.values(), *taken)) + 1, _END))

    def of(self, name: str) -> int:
        return self._known.get(ALIAS + name) or next(self._free)


def _indices(domain: etree._Element, known: Mapping[str, int]) -> _Indices:
    controllers = domain.iterfind("devices/controller[@type='pci']")
    return _Indices(known, (int(each.get("index", "0")) for each in controllers))


def _remove(domain: etree._Element) -> dict[str, int]:
    """Take our controllers out, and the devices off them; their indices, by alias."""
    known: dict[str, int] = {}
    for controller in domain.findall("devices/controller[@type='pci']"):
        alias = controller.find("alias")
        name = "" if alias is None else alias.get("name", "")
        if name.startswith(ALIAS):
            known[name] = int(controller.get("index", "0"))
            _drop(controller)
    for address in domain.findall("devices/*/address[@type='pci']"):
        if int(address.get("bus", "0"), 0) in known.values():
            _drop(address)
    return known


def _drop(element: etree._Element) -> None:
    parent = element.getparent()
    assert parent is not None
    parent.remove(element)


def _knows_buses(domain: etree._Element) -> bool:
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
