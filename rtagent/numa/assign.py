"""Make the assignment that corresponds to a placement."""

from __future__ import annotations

from collections.abc import Sequence

from rtagent.model.assignment import Assignment, CellAssignment
from rtagent.numa.candidates import Candidate
from rtagent.numa.cpu_policies import EMULATOR_ISOLATE, EMULATOR_SHARE
from rtagent.numa.guest_cells import GuestCell
from rtagent.numa.host_cells import CellCapacity, Host
from rtagent.numa.requirements import NumaRequirements


def assignment(
    required: NumaRequirements,
    host: Host,
    cells: Sequence[CellCapacity],
    placement: Sequence[tuple[int, Candidate]],
) -> Assignment:
    """Make an assignment of a placement.

    :param cells: the host's cells; none for a guest without cells.
    :param placement: for each guest cell, the id of its host cell and the resources that it takes
        there.
    """
    by_id = {cell.id: cell for cell in cells}
    assigned = tuple(
        _cell(guest, by_id[cell], candidate)
        for guest, (cell, candidate) in zip(required.cells, placement, strict=True)
    )
    shared = frozenset[int]().union(*(cell.shared for cell in cells))
    return Assignment(
        cells=assigned,
        shared_pcpus=frozenset() if assigned else _floating(host),
        emulator_pcpus=_emulator(required, assigned, shared),
        realtime=required.realtime,
        realtime_priority=host.policy.realtime_scheduler_priority,
        cpu_topology=required.cpu_topology,
        locked_memory=required.locked_memory,
        file_backed=bool(host.policy.file_backed_memory_mb),
    )


def _cell(guest: GuestCell, cell: CellCapacity, candidate: Candidate) -> CellAssignment:
    size = candidate.pagesize
    return CellAssignment(
        id=cell.id,
        memory=guest.memory,
        cpuset=guest.cpuset,
        shared_pcpus=cell.shared if guest.cpuset else frozenset(),
        cpu_pinning=dict(zip(sorted(guest.pcpuset), candidate.cpus.pcpus, strict=True)),
        cpuset_reserved=candidate.cpus.reserved,
        cpuset_kept=candidate.cpus.kept,
        pagesize=size,
        hugepages=size is not None and size > min(cell.pages),
    )


def _floating(host: Host) -> frozenset[int]:
    """Return the CPUs on which a guest without cells floats: the shared CPUs, if the operator lists
    any.
    """
    if host.policy.cpu_shared_set is None:
        return frozenset()
    return host.policy.shared(host.topology.cpus)


def _emulator(
    required: NumaRequirements, cells: Sequence[CellAssignment], shared: frozenset[int]
) -> frozenset[int]:
    """Return the CPUs of the emulator: its own CPU; the host's shared CPUs; or those of the vCPUs
    except realtime ones, next to which the emulator would starve.

    With the policy ``share`` on a host without shared CPUs, the first of these vCPUs alone is next
    to the emulator of a realtime guest.
    """
    if required.emulator_threads_policy == EMULATOR_ISOLATE:
        return cells[0].cpuset_reserved
    shares = required.emulator_threads_policy == EMULATOR_SHARE
    if shares and cells and shared:
        return shared
    vcpus = sorted(
        (vcpu, number)
        for number, cell in enumerate(cells)
        for vcpu in cell.vcpus - required.realtime
    )
    neighbours = vcpus[:1] if shares and required.realtime else vcpus
    return frozenset(pcpu for vcpu, number in neighbours for pcpu in cells[number].pcpus_of(vcpu))
