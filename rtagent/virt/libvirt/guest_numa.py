"""Build the elements of a domain document for CPUs, cells, pages and persistent memory. Pure.

For the meaning of the elements see libvirt's "Domain XML format": CPU tuning, NUMA node tuning,
memory backing, CPU model and topology, memory devices. A namespace is an NVDIMM of the guest.
libvirt counts it in the guest's ``<memory>``, and requires ``<maxMemory>`` and a guest cell.
"""

from collections.abc import Iterable, Iterator, Sequence

from lxml import etree

from rtagent.model.assignment import AssignedResource, Assignment, CellAssignment, PmemNamespace
from rtagent.model.cpuset import MAX_CPU, format_cpu_spec
from rtagent.model.units import KIB_IN_MIB
from rtagent.virt.libvirt.document import E, integer
from rtagent.virt.libvirt.given_devices import assigns

#: The settings for memory in a file.
FILE = tuple(f"memoryBacking/{tag}" for tag in ("source", "access", "allocation", "discard"))

#: KiB of a namespace in which the guest keeps its own labels, as in Nova.
LABEL_KB = 2048

#: The guest cell of all namespaces, as in Nova.
_CELL = "0"


def vcpu(assignment: Assignment, vcpus: int) -> etree._Element:
    """Build ``<vcpu>``. Its ``cpuset`` applies to every thread without pinning: the emulator, I/O
    threads, and the vCPUs of a guest without cells. It has none if vCPUs of a cell run anywhere."""
    element = E.vcpu(str(vcpus), placement="static")
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
        shared = any(cell.hugepages for cell in assignment.cells)
        yield E.numa(*(_cell(number, cell, shared) for number, cell in enumerate(assignment.cells)))


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


def _cell(number: int, cell: CellAssignment, shared: bool) -> etree._Element:
    element = E.cell(id=str(number))
    if cell.vcpus:
        element.set("cpus", format_cpu_spec(cell.vcpus))
    element.set("memory", str(cell.memory))
    element.set("unit", "MiB")
    if shared:
        # vhost-user devices map all memory from another process and may be attached at any time.
        element.set("memAccess", "shared")
    return element


def _page(size_kb: int, cells: Iterable[int]) -> etree._Element:
    return E.page(size=str(size_kb), unit="KiB", nodeset=format_cpu_spec(cells))


def namespaces(resources: Sequence[AssignedResource]) -> tuple[PmemNamespace, ...]:
    """Return the namespaces among assigned resources."""
    return tuple(each.namespace for each in resources if each.namespace is not None)


def namespace_elements(assigned: Sequence[PmemNamespace]) -> tuple[etree._Element, ...]:
    """Return a child of ``<devices>`` for each namespace."""
    return tuple(map(_element, assigned))


def memory_elements(
    memory_mb: int, assigned: Sequence[PmemNamespace]
) -> tuple[etree._Element, ...]:
    """Return the ``<domain>`` children with the size of the guest's memory and its namespaces.

    :param memory_mb: the flavor's memory.
    """
    total = str(memory_mb * KIB_IN_MIB + sum(each.size_kb for each in assigned))
    memory = E.memory(total, unit="KiB")
    if not assigned:
        return (memory,)
    return (E.maxMemory(total, unit="KiB", slots=str(len(assigned))), memory)


def only_cell(vcpus: int, memory_mb: int) -> etree._Element:
    """Return ``<numa>`` for a guest without cells: one with all of its vCPUs and memory."""
    cpus = f"0-{vcpus - 1}" if vcpus > 1 else "0"
    cell = E.cell(id=_CELL, cpus=cpus, memory=str(memory_mb), unit="MiB")
    return E.numa(cell)


def has_memory_devices(domain: etree._Element) -> bool:
    """Return whether the guest has memory devices besides namespaces. libvirt refuses them to a
    guest without cells."""
    return not all(map(assigns, domain.iterfind("devices/memory")))


def place_memory(domain: etree._Element, cells: Sequence[CellAssignment]) -> None:
    """Set the host cells and the page sizes that memory devices name to those of their guest cells.

    A device that names none has those of its guest cell already.

    :param cells: by guest cell; empty: the guest's memory is bound to no host cell.
    :raises BadDocument: the number of a guest cell is invalid.
    """
    for device in domain.iterfind("devices/memory"):
        node, source = device.findtext("target/node"), device.find("source")
        if source is None:
            continue
        number = 0 if node is None else integer(node, "<node> of <memory>", MAX_CPU)
        own = cells if node is None else cells[number : number + 1]
        hosts = format_cpu_spec(cell.id for cell in own)
        sizes = {cell.pagesize if cell.hugepages else None for cell in own} - {None}
        replace_child(source, "nodemask", E.nodemask(hosts) if hosts else None)
        replace_child(
            source, "pagesize", E.pagesize(str(*sizes), unit="KiB") if len(sizes) == 1 else None
        )
        if not len(source):
            device.remove(source)


def replace_child(parent: etree._Element, tag: str, new: etree._Element | None) -> None:
    """Replace a child, if there is one; None: remove it."""
    old = parent.find(tag)
    if old is not None and new is not None:
        parent.replace(old, new)
    elif old is not None:
        parent.remove(old)


def _element(namespace: PmemNamespace) -> etree._Element:
    return E.memory(
        E.source(
            E.path(namespace.path), E.alignsize(str(namespace.align_kb), unit="KiB"), E.pmem()
        ),
        E.target(
            E.size(str(namespace.size_kb), unit="KiB"),
            E.node(_CELL),
            E.label(E.size(str(LABEL_KB), unit="KiB")),
        ),
        model="nvdimm",
        access="shared",
    )
