"""NUMA topologies of guests: rtagent's assignments in Nova's objects, and back."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from nova import objects

from rtagent.model.assignment import Assignment, CellAssignment


def nova_topology(requested: Any, assignment: Assignment | None) -> Any:
    """Return the InstanceNUMATopology of what was assigned, or None.

    :param requested: the InstanceNUMATopology without host CPUs, or None.
    """
    if requested is None or assignment is None or not assignment.cells:
        return None
    policy = "emulator_threads_policy"
    return objects.InstanceNUMATopology(
        cells=[
            _nova_cell(cell, given)
            for cell, given in zip(requested.cells, assignment.cells, strict=True)
        ],
        emulator_threads_policy=getattr(requested, policy)
        if requested.obj_attr_is_set(policy)
        else None,
    )


def assignment(nova: Any) -> Assignment | None:
    """Return what an instance has, as its InstanceNUMATopology says."""
    if nova is None:
        return None
    return Assignment(cells=tuple(map(_cell, nova.cells)))


def fingerprint(given: Assignment | None, without: Collection[int] = ()) -> tuple[object, ...]:
    """Return by what an assignment is recognised: cells, host CPUs, memory.

    :param without: host CPUs that are left out.
    """
    return tuple(
        (cell.id, (cell.taken - cell.cpuset_kept).difference(without), cell.memory)
        for cell in (given.cells if given else ())
    )


def _nova_cell(requested: Any, given: CellAssignment) -> Any:
    """Make a cell, all of whose fields count as changed.

    Stored topologies say which fields are changed ones, and an object that is read later is saved
    again only then: the rollback of a live migration relies on that.
    """
    fields = {
        name: getattr(requested, name)
        for name in requested.fields
        if requested.obj_attr_is_set(name)
    }
    fields |= {
        "id": given.id,
        "pagesize": given.pagesize,
        "cpuset_reserved": set(given.cpuset_reserved) or None,
    }
    cell = objects.InstanceNUMACell(**fields)
    cell.cpu_pinning = dict(given.cpu_pinning) or None
    return cell


def _cell(nova: Any) -> CellAssignment:
    return CellAssignment(
        id=nova.id,
        memory=nova.memory,
        cpuset=frozenset(nova.cpuset),
        cpu_pinning={int(v): int(p) for v, p in (nova.cpu_pinning or {}).items()},
        cpuset_reserved=frozenset(nova.cpuset_reserved or ()),
        pagesize=nova.pagesize,
    )
