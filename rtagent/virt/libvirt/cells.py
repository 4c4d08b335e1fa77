"""The NUMA cells of a capabilities document: pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from lxml import etree

from rtagent.model.cpuset import BadCpuSet, parse_cpu_spec
from rtagent.model.topology import Cell
from rtagent.virt.libvirt.document import BadDocument, integer, parse

#: Bytes in each unit in which libvirt may state a size.
_BYTES = {"b": 1, "bytes": 1, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3, "TiB": 1024**4}
_KIB, _MIB = 1024, 1024**2


def parse_cells(document: str, running: frozenset[int] | None = None) -> tuple[Cell, ...]:
    """The host's cells, by id; none when the document tells of none.

    :param running: the host's online CPUs; None: as the document tells. libvirt 9 tells of an
        offline CPU what it tells of a core of its own on socket 0 (LP2077228).
    :raises BadDocument: naming the cell and what is odd about it.
    """
    elements = parse(document).iterfind("host/topology/cells/cell")
    cells = [_cell(element, running) for element in elements]
    _check_disjoint(cells)
    return tuple(sorted(cells, key=lambda cell: cell.id))


def _cell(element: etree._Element, running: frozenset[int] | None) -> Cell:
    number = integer(element.get("id"), "<cell id>")
    where = f"cell {number}"
    listed = element.iterfind("cpus/cpu")
    cpus = {integer(cpu.get("id"), f"{where}: <cpu id>"): cpu for cpu in listed}
    # An offline CPU has neither siblings nor a socket, whatever is told: libvirt reads both from
    # what Linux shows of CPUs that run.
    online = {
        cpu_id: cpu
        for cpu_id, cpu in cpus.items()
        if cpu.get("siblings") is not None and (running is None or cpu_id in running)
    }
    return Cell(
        id=number,
        cpus=frozenset(online),
        offline=frozenset(cpus.keys() - online.keys()),
        memory_mb=_size(element.find("memory"), f"{where}: <memory>") // _MIB,
        siblings=_siblings(online, where),
        sockets=frozenset(
            integer(cpu.get("socket_id"), f"{where}: <cpu socket_id>") for cpu in online.values()
        ),
        distances=dict(_distances(element, where)),
        pages=dict(_pages(element, where)),
    )


def _siblings(online: dict[int, etree._Element], where: str) -> tuple[frozenset[int], ...]:
    """Each core once. What a CPU names beyond the cell's online CPUs is left out."""
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
            integer(sibling.get("id"), f"{where}: <sibling id>"),
            integer(sibling.get("value"), f"{where}: <sibling value>"),
        )


def _pages(element: etree._Element, where: str) -> Iterator[tuple[int, int]]:
    for pages in element.iterfind("pages"):
        size = integer(pages.get("size"), f"{where}: <pages size>")
        unit = _unit(pages, f"{where}: <pages>")
        yield size * unit // _KIB, integer(pages.text, f"{where}: <pages>")


def _size(element: etree._Element | None, where: str) -> int:
    """Bytes; 0 when there is no element: libvirt leaves out the memory of a cell that has none."""
    if element is None:
        return 0
    return integer(element.text, where) * _unit(element, where)


def _unit(element: etree._Element, where: str) -> int:
    unit = element.get("unit", "KiB")
    if unit not in _BYTES:
        raise BadDocument(f"{where} is in {unit!r}, which is no unit of memory")
    return _BYTES[unit]


def _check_disjoint(cells: list[Cell]) -> None:
    ids: set[int] = set()
    cpus: set[int] = set()
    for cell in cells:
        both = cpus & (cell.cpus | cell.offline)
        if cell.id in ids or both:
            what = f"CPUs {sorted(both)}" if both else "it"
            raise BadDocument(f"cell {cell.id}: {what} is there twice")
        ids.add(cell.id)
        cpus |= cell.cpus | cell.offline
