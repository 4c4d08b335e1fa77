"""Build the elements of a domain document for CPUs, cells and pages. Pure.

For the meaning of the elements see libvirt's "Domain XML format": CPU tuning, NUMA node tuning,
memory backing, CPU model and topology.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lxml import etree
from lxml.builder import E

from rtagent.model.assignment import Assignment, CellAssignment
from rtagent.model.cpuset import format_cpu_spec

#: The settings for memory in a file.
FILE = tuple(f"memoryBacking/{tag}" for tag in ("source", "access", "allocation", "discard"))


def vcpu(assignment: Assignment, vcpus: int) -> etree._Element:
    """Build ``<vcpu>``. Its ``cpuset`` applies to every thread without pinning: the emulator, I/O
    threads, and the vCPUs of a guest without cells. It has none if vCPUs of a cell run anywhere."""
    element: etree._Element = E.vcpu(str(vcpus), placement="static")
    cpuset = assignment.emulator_pcpus if assignment.cells else assignment.shared_pcpus
    if cpuset and all(cell.pcpus_of(number) for number, cell in _vcpus(assignment)):
        element.set("cpuset", format_cpu_spec(cpuset))
    return element


def cputune(assignment: Assignment) -> Iterator[etree._Element]:
    """Yield children of ``<cputune>``: pins of vCPUs and emulator, and the realtime scheduler."""
    for number, cell in sorted(_vcpus(assignment)):
        if cpus := cell.pcpus_of(number):  # none: the vCPU of an adopted guest that runs anywhere
            yield E.vcpupin(vcpu=str(number), cpuset=format_cpu_spec(cpus))
    if assignment.emulator_pcpus:
        yield E.emulatorpin(cpuset=format_cpu_spec(assignment.emulator_pcpus))
    if assignment.realtime:
        yield E.vcpusched(
            vcpus=format_cpu_spec(assignment.realtime),
            scheduler="fifo",
            priority=str(assignment.realtime_priority),
        )


def numatune(assignment: Assignment) -> Iterator[etree._Element]:
    """Yield children of ``<numatune>``: strict binding of each guest cell to its host cell."""
    if assignment.cells:
        yield E.memory(mode="strict", nodeset=format_cpu_spec(c.id for c in assignment.cells))
    for number, cell in enumerate(assignment.cells):
        yield E.memnode(cellid=str(number), mode="strict", nodeset=str(cell.id))


def cpu(assignment: Assignment) -> Iterator[etree._Element]:
    """Yield children of ``<cpu>``: the guest's CPU topology and cells."""
    seen = assignment.cpu_topology
    if seen is not None:
        yield E.topology(
            sockets=str(seen.sockets), cores=str(seen.cores), threads=str(seen.threads)
        )
    if assignment.cells:
        yield E.numa(*(_cell(number, cell) for number, cell in enumerate(assignment.cells)))


def memory_backing(assignment: Assignment) -> Iterator[etree._Element]:
    """Yield children of ``<memoryBacking>``: huge pages; for a realtime guest also settings against
    swapping the memory out and against merging it with that of other guests, because both cause
    latency; the file of memory that is in one, which is shared, allocated at once, and discarded
    with the guest.
    """
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
    if assignment.file_backed:
        yield E.source(type="file")
        yield E.access(mode="shared")
        yield E.allocation(mode="immediate")
        yield E.discard()


def plugs_in(domain: etree._Element, vcpus: int) -> bool:
    """Return whether a document's ``<vcpus>`` plugs in this number of vCPUs and no others. Such a
    list keeps the order in which a running guest got them."""
    listed = {(vcpu.get("id"), vcpu.get("enabled")) for vcpu in domain.iterfind("vcpus/vcpu")}
    return listed == {(str(number), "yes") for number in range(vcpus)}


def _vcpus(assignment: Assignment) -> Iterator[tuple[int, CellAssignment]]:
    for cell in assignment.cells:
        for number in cell.vcpus:
            yield number, cell


def _cell(number: int, cell: CellAssignment) -> etree._Element:
    element: etree._Element = E.cell(id=str(number))
    if cell.vcpus:
        element.set("cpus", format_cpu_spec(cell.vcpus))
    element.set("memory", str(cell.memory))
    element.set("unit", "MiB")
    if cell.hugepages:
        # vhost-user devices map the memory from another process and may be attached at any time.
        element.set("memAccess", "shared")
    return element


def _page(size_kb: int, cells: Iterable[int]) -> etree._Element:
    element: etree._Element = E.page(size=str(size_kb), unit="KiB", nodeset=format_cpu_spec(cells))
    return element
