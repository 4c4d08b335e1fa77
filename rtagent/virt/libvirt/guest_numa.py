"""The part of a domain document that enacts CPUs, cells and pages: pure.

Names and meanings of elements: libvirt's "Domain XML format", CPU tuning, NUMA node tuning, memory
backing, CPU model and topology.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lxml import etree
from lxml.builder import E

from rtagent.model.assignment import Assignment, CellAssignment
from rtagent.model.cpuset import format_cpu_spec


def vcpu(assignment: Assignment, vcpus: int) -> etree._Element:
    """``<vcpu>``. Its ``cpuset`` is for each thread that has no place of its own: the emulator, I/O
    threads, and the vCPUs of a guest without cells."""
    element = E.vcpu(str(vcpus), placement="static")
    cpuset = assignment.emulator_pcpus if assignment.cells else assignment.shared_pcpus
    if cpuset:
        element.set("cpuset", format_cpu_spec(cpuset))
    return element


def cputune(assignment: Assignment) -> Iterator[etree._Element]:
    """Of ``<cputune>``: a place for every vCPU and for the emulator, and the realtime scheduler."""
    for number, cell in sorted(_vcpus(assignment)):
        yield E.vcpupin(vcpu=str(number), cpuset=format_cpu_spec(cell.pcpus_of(number)))
    if assignment.emulator_pcpus:
        yield E.emulatorpin(cpuset=format_cpu_spec(assignment.emulator_pcpus))
    if assignment.realtime:
        yield E.vcpusched(
            vcpus=format_cpu_spec(assignment.realtime),
            scheduler="fifo",
            priority=str(assignment.realtime_priority),
        )


def numatune(assignment: Assignment) -> Iterator[etree._Element]:
    """Of ``<numatune>``: each guest cell's memory is its host cell's; else the guest does not
    start."""
    if assignment.cells:
        yield E.memory(mode="strict", nodeset=format_cpu_spec(c.id for c in assignment.cells))
    for number, cell in enumerate(assignment.cells):
        yield E.memnode(cellid=str(number), mode="strict", nodeset=str(cell.id))


def cpu(assignment: Assignment) -> Iterator[etree._Element]:
    """Of ``<cpu>``: how the guest sees its CPUs and its cells."""
    shape = assignment.cpu_topology
    if shape is not None:
        yield E.topology(
            sockets=str(shape.sockets), cores=str(shape.cores), threads=str(shape.threads)
        )
    if assignment.cells:
        yield E.numa(*(_cell(number, cell) for number, cell in enumerate(assignment.cells)))


def memory_backing(assignment: Assignment) -> Iterator[etree._Element]:
    """Of ``<memoryBacking>``: huge pages; and of a realtime guest that none of its memory is ever
    swapped out or merged with another's, either of which would make it wait."""
    sizes: dict[int, list[int]] = {}
    for number, cell in enumerate(assignment.cells):
        if cell.hugepages and cell.pagesize is not None:
            sizes.setdefault(cell.pagesize, []).append(number)
    if sizes:
        yield E.hugepages(*(_page(size, cells) for size, cells in sorted(sizes.items())))
    if assignment.realtime:
        yield E.nosharepages()
    if assignment.realtime or assignment.locked_memory:
        yield E.locked()


def _vcpus(assignment: Assignment) -> Iterator[tuple[int, CellAssignment]]:
    for cell in assignment.cells:
        for number in cell.vcpus:
            yield number, cell


def _cell(number: int, cell: CellAssignment) -> etree._Element:
    element = E.cell(id=str(number))
    if cell.vcpus:
        element.set("cpus", format_cpu_spec(cell.vcpus))
    element.set("memory", str(cell.memory))
    element.set("unit", "MiB")
    if cell.hugepages:
        # A vhost-user device maps them from its own process, and may be attached at any time.
        element.set("memAccess", "shared")
    return element


def _page(size_kb: int, cells: Iterable[int]) -> etree._Element:
    return E.page(size=str(size_kb), unit="KiB", nodeset=format_cpu_spec(cells))
