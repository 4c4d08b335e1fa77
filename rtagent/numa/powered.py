"""A host of which some CPUs are switched off to save power: what it is when they run."""

from __future__ import annotations

from msgspec.structs import replace

from rtagent.model.topology import Cell, Topology


def powered(seen: Topology, known: Topology, managed: frozenset[int]) -> Topology:
    """As seen, with the managed CPUs that do not run as they were when they did.

    Of an offline CPU the kernel tells neither its siblings nor its socket (LP2077228), and a
    hypervisor that was started meanwhile may not know of it at all: all is remembered. What
    changed otherwise is as seen.

    :param known: the host as this function told it last; at first with every managed CPU online.
    """
    if not managed:
        return seen
    before = {cell.id: cell for cell in known.cells}
    cells = tuple(
        _cell(cell, before[cell.id], managed) if cell.id in before else cell for cell in seen.cells
    )
    back = frozenset[int]().union(*(cell.cpus for cell in cells))
    return replace(seen, cells=cells, cpus=seen.cpus | back, cpu_info=known.cpu_info)


def hidden(seen: Topology, managed: frozenset[int]) -> frozenset[int]:
    """Managed CPUs that run, and that no cell has, on a host with cells: the hypervisor looked at
    its cells while they were off."""
    return managed & seen.cpus - _in_cells(seen) if seen.cells else frozenset()


def knows(topology: Topology, cpus: frozenset[int]) -> bool:
    """Whether each of them is in a cell."""
    return cpus <= _in_cells(topology)


def _in_cells(topology: Topology) -> frozenset[int]:
    return frozenset[int]().union(*(cell.cpus | cell.offline for cell in topology.cells))


def _cell(seen: Cell, known: Cell, managed: frozenset[int]) -> Cell:
    cpus = seen.cpus | managed & known.cpus
    cores = [core & cpus for core in _joined(*known.siblings, *seen.siblings)]
    return replace(
        seen,
        cpus=cpus,
        offline=seen.offline - cpus,
        siblings=tuple(sorted((core for core in cores if core), key=min)),
        # Of a CPU that goes offline while it is looked at, a socket is told that is not its own.
        sockets=known.sockets if cpus <= known.cpus else known.sockets | seen.sockets,
    )


def _joined(*parts: frozenset[int]) -> list[frozenset[int]]:
    """Cores, of parts of them: a CPU that runs alone is told of like a core of its own."""
    cores = list[frozenset[int]]()
    for part in parts:
        touched = [core for core in cores if core & part]
        cores = [core for core in cores if not core & part] + [part.union(*touched)]
    return cores
