"""The candidate matrix: which host cells each guest cell fits, and the resources that it takes
there.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_FLOOR, Decimal

from rtagent.model.base import Value
from rtagent.model.decision import Reason, ReasonCode
from rtagent.numa import memory
from rtagent.numa.host_cells import CellCapacity, CellLimits
from rtagent.numa.requirements import CellRequirements
from rtagent.numa.thread_policies import POLICIES, CpuSelection


class Candidate(Value, frozen=True, kw_only=True):
    """The resources that a guest cell would take from a host cell.

    :ivar pagesize: KiB; None: no explicit size.
    """

    cpus: CpuSelection
    pagesize: int | None


class CandidateRow(Value, frozen=True, kw_only=True):
    """One guest cell on each host cell, by the host cell's id.

    :ivar candidates: the host cells that it fits, the preferred one first. :ivar reasons: why it
        does not fit the others.
    """

    candidates: dict[int, Candidate]
    reasons: dict[int, tuple[Reason, ...]]


def candidate_matrix(
    required: Sequence[CellRequirements], cells: Sequence[CellCapacity], limits: CellLimits
) -> tuple[CandidateRow, ...]:
    """Return a row for each guest cell.

    Guest cells with equal requirements share a row, because the resources that they take from a
    host cell do not depend on the placement of the other guest cells.
    """
    rows = {each: _row(each, cells, limits) for each in dict.fromkeys(required)}
    return tuple(rows[each] for each in required)


def _row(
    required: CellRequirements, cells: Sequence[CellCapacity], limits: CellLimits
) -> CandidateRow:
    found = {cell.id: _candidate(required, cell, limits) for cell in cells}
    return CandidateRow(
        candidates={cell: each for cell, each in found.items() if isinstance(each, Candidate)},
        reasons={cell: each for cell, each in found.items() if not isinstance(each, Candidate)},
    )


def _candidate(
    required: CellRequirements, cell: CellCapacity, limits: CellLimits
) -> Candidate | tuple[Reason, ...]:
    """Return the resources that a guest cell would take from a host cell, or every reason why it
    does not fit.
    """
    cpus, size = _dedicated_cpus(required, cell), memory.page_size(required, cell, limits)
    others = (
        _shared_cpus_shortfall(required, cell, limits),
        memory.shortfall(required, cell, limits) if required.pagesize is None else None,
    )
    if isinstance(cpus, Reason) or isinstance(size, Reason) or any(others):
        unmet = (cpus, size, *others)
        return tuple(reason for reason in unmet if isinstance(reason, Reason))
    return Candidate(cpus=cpus, pagesize=size)


def _dedicated_cpus(required: CellRequirements, cell: CellCapacity) -> CpuSelection | Reason:
    """Select host CPUs for the dedicated vCPUs, and for an isolated emulator."""
    needed = required.pcpus + required.reserved
    if not needed:
        return CpuSelection()
    policy = POLICIES[required.cpu_thread_policy]
    selected = policy.select(cell.cores, required.pcpus, required.reserved)
    if selected is not None:
        return selected
    exceeds = needed > cell.dedicated
    available = min(cell.free_pcpus, policy.available(cell.cores))
    return Reason(
        code=ReasonCode.EXCEEDS_CELL if exceeds else ReasonCode.INSUFFICIENT,
        resource="PCPU",
        where=cell.where,
        requested=needed,
        available=cell.dedicated if exceeds else available,
        unit="CPUs" if exceeds else policy.unit,
    )


def _shared_cpus_shortfall(
    required: CellRequirements, cell: CellCapacity, limits: CellLimits
) -> Reason | None:
    """Return why the shared vCPUs do not fit; None: they fit.

    A guest cell never has more of them than the host cell has shared CPUs, and all guests together
    not more than the ratio allows.
    """
    total = len(cell.shared)
    limit = Decimal(total) * limits.cpu_allocation_ratio
    available = int(limit.to_integral_value(ROUND_FLOOR)) - cell.vcpus
    if required.vcpus > total:
        code, available = ReasonCode.EXCEEDS_CELL, total
    elif required.vcpus and required.vcpus > available:
        code, available = ReasonCode.INSUFFICIENT, max(0, available)
    else:
        return None
    return Reason(
        code=code,
        resource="VCPU",
        where=cell.where,
        requested=required.vcpus,
        available=available,
        unit="vCPUs",
    )
