"""Parse the NUMA cells of a capabilities document. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from lxml import etree

from rtagent.model.cpuset import MAX_CPU, BadCpuSet, parse_cpu_spec
from rtagent.model.topology import Cell
from rtagent.model.units import BYTES_IN_KIB, BYTES_IN_MIB
from rtagent.virt.libvirt.document import LARGEST, BadDocument, integer, parse
from rtagent.virt.libvirt.units import in_bytes

#: Higher than the numbers of NUMA nodes that Linux supports.
MAX_CELL = 65535


def parse_cells(document: str | bytes, running: frozenset[int] | None = None) -> tuple[Cell, ...]:
    """Return the host's cells in order of their ids; empty when the document has none.

    :param running: the host's online CPUs; None: use the document alone. libvirt 9 reports an
        offline CPU as a core of its own on socket 0 (LP2077228).
    :raises BadDocument: names the cell and the invalid element.
    """
    elements = parse(document).iterfind("host/topology/cells/cell")
    cells = [_cell(element, running) for element in elements]
    _check_disjoint(cells)
    return tuple(sorted(cells, key=lambda cell: cell.id))


def _cell(element: etree._Element, running: frozenset[int] | None) -> Cell:
    number = integer(element.get("id"), "<cell id>", MAX_CELL)
    where = f"cell {number}"
    listed = element.iterfind("cpus/cpu")
    cpus = {integer(cpu.get("id"), f"{where}: <cpu id>", MAX_CPU): cpu for cpu in listed}
    # Ignore siblings and socket of an offline CPU: libvirt reads both from sysfs, which has them
    # for online CPUs only.
    online = {
        cpu_id: cpu
        for cpu_id, cpu in cpus.items()
        if cpu.get("siblings") is not None and (running is None or cpu_id in running)
    }
    return Cell(
        id=number,
        cpus=frozenset(online),
        offline=frozenset(cpus.keys() - online.keys()),
        memory_mb=_size(element.find("memory"), f"{where}: <memory>") // BYTES_IN_MIB,
        siblings=_siblings(online, where),
        sockets=frozenset(
            integer(cpu.get("socket_id"), f"{where}: <cpu socket_id>") for cpu in online.values()
        ),
        distances=dict(_distances(element, where)),
        pages=dict(_pages(element, where)),
    )


def _siblings(online: dict[int, etree._Element], where: str) -> tuple[frozenset[int], ...]:
    """Return each core once, without CPUs that are offline or in another cell."""
    cores = {frozenset(_core(cpu, where) & online.keys() | {n}) for n, cpu in online.items()}
    counted = Counter(number for core in cores for number in core)
    for number, count in counted.items():
        if count > 1:
            raise BadDocument(f"{where}: CPU {number} is a sibling on more than one core")
    return tuple(sorted(cores, key=min))


def _core(cpu: etree._Element, where: str) -> frozenset[int]:
    try:
        return parse_cpu_spec(cpu.get("siblings", ""))
    except BadCpuSet as error:
        raise BadDocument(f"{where}: <cpu siblings>: {error}") from error


def _distances(element: etree._Element, where: str) -> Iterator[tuple[int, int]]:
    for sibling in element.iterfind("distances/sibling"):
        yield (
            integer(sibling.get("id"), f"{where}: <sibling id>", MAX_CELL),
            integer(sibling.get("value"), f"{where}: <sibling value>"),
        )


def _pages(element: etree._Element, where: str) -> Iterator[tuple[int, int]]:
    for pages in element.iterfind("pages"):
        size = in_bytes(pages, pages.get("size"), f"{where}: <pages size>") // BYTES_IN_KIB
        if not size:
            raise BadDocument(f"{where}: <pages size> is less than 1 KiB")
        yield size, integer(pages.text, f"{where}: <pages>", LARGEST // BYTES_IN_KIB // size)


def _size(element: etree._Element | None, where: str) -> int:
    """Return bytes; 0 without an element, because libvirt omits it for a cell without memory."""
    if element is None:
        return 0
    return in_bytes(element, element.text, where)


def _check_disjoint(cells: list[Cell]) -> None:
    ids: set[int] = set()
    cpus: set[int] = set()
    for cell in cells:
        both = cpus & (cell.cpus | cell.offline)
        if cell.id in ids or both:
            what = f": CPUs {sorted(both)} are listed" if both else " is listed"
            raise BadDocument(f"cell {cell.id}{what} twice")
        ids.add(cell.id)
        cpus |= cell.cpus | cell.offline
