"""The idle thread siblings of a guest with the thread policy isolate."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from rtagent.model.assignment import Assignment
from rtagent.model.policy import NumaPolicy
from rtagent.model.topology import Topology


def with_idle_siblings(
    assignment: Assignment, topology: Topology, policy: NumaPolicy, in_use: Iterable[int]
) -> Assignment:
    """Return the assignment of a guest with the thread policy isolate: it keeps the idle thread
    siblings of its dedicated CPUs.

    :param in_use: host CPUs that cannot be kept, because a guest uses them.
    """
    free = set(policy.dedicated(topology.cpus)).difference(in_use, assignment.taken)
    cores = [core for cell in topology.cells for core in cell.siblings]
    cells = []
    for cell in assignment.cells:
        siblings = frozenset[int]().union(*(core for core in cores if core & cell.taken))
        cells.append(replace(cell, cpuset_kept=siblings & free))
        free -= siblings
    return replace(assignment, cells=tuple(cells))
