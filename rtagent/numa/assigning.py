"""A placement, made concrete."""

from __future__ import annotations

from collections.abc import Sequence

from rtagent.model.assignment import Assignment, CellAssignment
from rtagent.numa import emulator
from rtagent.numa.constraints import Constraints
from rtagent.numa.guest import GuestCell
from rtagent.numa.host import Host
from rtagent.numa.room import Room
from rtagent.numa.table import Slot


def assignment(
    asked: Constraints, host: Host, rooms: Sequence[Room], slots: Sequence[tuple[int, Slot]]
) -> Assignment:
    """:param slots: for each guest cell the host cell's id, and what it takes there."""
    by_id = {room.id: room for room in rooms}
    cells = tuple(
        _cell(guest, by_id[cell], slot)
        for guest, (cell, slot) in zip(asked.cells, slots, strict=True)
    )
    shared = frozenset[int]().union(*(room.shared for room in rooms))
    return Assignment(
        cells=cells,
        shared_pcpus=frozenset() if cells else _floating(host),
        emulator_pcpus=_emulator(asked, cells, shared),
        realtime=asked.realtime,
        realtime_priority=host.policy.realtime_scheduler_priority,
        cpu_topology=asked.cpu_topology,
        locked_memory=asked.locked_memory,
    )


def _cell(guest: GuestCell, room: Room, slot: Slot) -> CellAssignment:
    return CellAssignment(
        id=room.id,
        memory=guest.memory,
        cpuset=guest.cpuset,
        shared_pcpus=room.shared if guest.cpuset else frozenset(),
        cpu_pinning=dict(zip(sorted(guest.pcpuset), slot.taking.pcpus, strict=True)),
        cpuset_reserved=slot.taking.reserved,
        cpuset_kept=slot.taking.kept,
        pagesize=slot.pagesize,
        hugepages=slot.pagesize is not None and slot.pagesize > min(room.pages),
    )


def _floating(host: Host) -> frozenset[int]:
    """A guest without cells stays on the shared CPUs, where the operator says which those are."""
    if host.policy.cpu_shared_set is None:
        return frozenset()
    return host.policy.shared(host.topology.cpus)


def _emulator(
    asked: Constraints, cells: Sequence[CellAssignment], shared: frozenset[int]
) -> frozenset[int]:
    """On its own CPU; on the host's shared ones; or with the vCPUs, save the realtime ones, beside
    which it would starve."""
    if asked.emulator_threads_policy == emulator.ISOLATE:
        return cells[0].cpuset_reserved
    if asked.emulator_threads_policy == emulator.SHARE and cells and shared:
        return shared
    return frozenset(
        pcpu
        for cell in cells
        for vcpu in sorted(cell.vcpus - asked.realtime)
        for pcpu in cell.pcpus_of(vcpu)
    )
