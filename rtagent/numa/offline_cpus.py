"""The topology of a host whose CPU power management has switched off some CPUs."""

from __future__ import annotations

from msgspec.structs import replace

from rtagent.model.topology import Cell, Topology


def with_managed_cpus(seen: Topology, known: Topology, managed: frozenset[int]) -> Topology:
    """Return an observed topology in which the managed CPUs that are off appear as if they were
    online.

    Linux reports neither the siblings nor the socket of an offline CPU (LP2077228). A hypervisor
    that was started while the CPU was off may not report it at all. So all data of these CPUs comes
    from `known`. Everything else is as observed.

    :param known: the result of the previous call; at first, an observation with every managed CPU
        online.
    """
    if not managed:
        return seen
    before = {cell.id: cell for cell in known.cells}
    cells = tuple(
        _cell(cell, before[cell.id], managed) if cell.id in before else cell for cell in seen.cells
    )
    in_cells = frozenset[int]().union(*(cell.cpus for cell in cells))
    return replace(seen, cells=cells, cpus=seen.cpus | in_cells, cpu_info=known.cpu_info)


def cpus_without_cell(seen: Topology, managed: frozenset[int]) -> frozenset[int]:
    """Return the managed CPUs that are online and in no cell, on a host with cells.

    The hypervisor read its cells while these CPUs were off.
    """
    return managed & seen.cpus - _in_cells(seen) if seen.cells else frozenset()


def cells_contain(topology: Topology, cpus: frozenset[int]) -> bool:
    """Return whether each of the CPUs is in a cell."""
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
        # A wrong socket is reported for a CPU that goes offline during the observation.
        sockets=known.sockets if cpus <= known.cpus else known.sockets | seen.sockets,
    )


def _joined(*parts: frozenset[int]) -> list[frozenset[int]]:
    """Join overlapping parts of cores: a thread whose siblings are offline is reported as a whole
    core.
    """
    cores = list[frozenset[int]]()
    for part in parts:
        touched = [core for core in cores if core & part]
        cores = [core for core in cores if not core & part] + [part.union(*touched)]
    return cores
