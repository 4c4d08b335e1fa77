"""The candidate matrix: which host cells each guest cell fits, and the CPUs and pages that it takes
there.
"""

from collections.abc import Iterator, Sequence
from decimal import ROUND_FLOOR, Decimal

from rtagent.model.base import Value
from rtagent.model.decision import Reason, ReasonCode
from rtagent.model.units import KIB_IN_MIB, candidates, format_request, format_size
from rtagent.numa.cpu_policies import DEDICATED, SHARED
from rtagent.numa.host_cells import CellCapacity, CellLimits
from rtagent.numa.requirements import CellRequirements
from rtagent.numa.thread_policies import POLICIES, CpuSelection


class CellCandidate(Value, frozen=True, kw_only=True):
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

    candidates: dict[int, CellCandidate]
    reasons: dict[int, tuple[Reason, ...]]


def candidate_matrix(
    required: Sequence[CellRequirements], cells: Sequence[CellCapacity], limits: CellLimits
) -> tuple[CandidateRow, ...]:
    """Return a row for each guest cell.

    Guest cells with equal requirements share a row, because the resources that they take from a
    host cell do not depend on the placement of the other guest cells.
    """
    rows = {guest: _row(guest, cells, limits) for guest in dict.fromkeys(required)}
    return tuple(rows[guest] for guest in required)


def _row(
    required: CellRequirements, cells: Sequence[CellCapacity], limits: CellLimits
) -> CandidateRow:
    row = {cell.id: _candidate(required, cell, limits) for cell in cells}
    return CandidateRow(
        candidates={cell: fit for cell, fit in row.items() if isinstance(fit, CellCandidate)},
        reasons={cell: fit for cell, fit in row.items() if not isinstance(fit, CellCandidate)},
    )


def _candidate(
    required: CellRequirements, cell: CellCapacity, limits: CellLimits
) -> CellCandidate | tuple[Reason, ...]:
    """Return the resources that a guest cell would take from a host cell, or every reason why it
    does not fit.
    """
    cpus, size = _dedicated_cpus(required, cell), _page_size(required, cell, limits)
    others = (
        _shared_cpus_shortage(required, cell, limits),
        _memory_shortage(required, cell, limits) if required.pagesize is None else None,
    )
    if isinstance(cpus, Reason) or isinstance(size, Reason) or any(others):
        unmet = (cpus, size, *others)
        return tuple(reason for reason in unmet if isinstance(reason, Reason))
    return CellCandidate(cpus=cpus, pagesize=size)


def _dedicated_cpus(required: CellRequirements, cell: CellCapacity) -> CpuSelection | Reason:
    """Select host CPUs for the dedicated vCPUs, and for an isolated emulator."""
    needed = required.pcpus + required.reserved
    if not needed:
        return CpuSelection()
    policy = POLICIES[required.cpu_thread_policy]
    selected = policy.select(cell.cores, required.pcpus, required.reserved)
    if selected is not None:
        return selected
    available = min(cell.free_pcpus, policy.available(cell.cores))
    unit = "CPUs" if needed > cell.dedicated else policy.unit
    return _shortage(cell, "PCPU", unit, needed, available, cell.dedicated)


def _shared_cpus_shortage(
    required: CellRequirements, cell: CellCapacity, limits: CellLimits
) -> Reason | None:
    """Return why the shared vCPUs do not fit; None: they fit.

    A guest cell never has more of them than the host cell has shared CPUs, and all guests together
    not more than the ratio allows.
    """
    total = len(cell.shared)
    available = _limit(total, limits.cpu_allocation_ratio) - cell.vcpus
    if not required.vcpus or required.vcpus <= min(total, available):
        return None
    return _shortage(cell, "VCPU", "vCPUs", required.vcpus, available, total)


def _page_size(
    required: CellRequirements, cell: CellCapacity, limits: CellLimits
) -> int | Reason | None:
    """Choose the size (KiB) of the pages that a guest cell takes: the largest that fits.

    :returns: None if it requests no explicit size; the reason if no size fits.
    """
    if required.pagesize is None:
        return None
    reasons: list[Reason] = []
    for size in page_sizes(required, cell, limits):
        if not isinstance(size, Reason):
            return size
        reasons.append(size)
    if not reasons:
        name = format_request(required.pagesize)
        return _no_pages(ReasonCode.NOT_OFFERED, name, required.memory, cell)
    return min(reasons, key=lambda reason: reason.miss)


def page_sizes(
    required: CellRequirements, cell: CellCapacity, limits: CellLimits
) -> Iterator[int | Reason]:
    """Yield each size (KiB) of the pages that a guest cell accepts, the largest first, or why its
    memory does not fit into the cell's pages of that size.
    """
    assert required.pagesize is not None, "it requests an explicit size"
    for size in candidates(required.pagesize, cell.pages):
        reason = _pages_shortage(required.memory, size, cell)
        if reason is None and size == min(cell.pages):
            reason = _over_limit(required, cell, limits)
        yield reason or size


def _memory_shortage(
    required: CellRequirements, cell: CellCapacity, limits: CellLimits
) -> Reason | None:
    """Return why memory of no explicit page size does not fit; None: it fits.

    Such memory consists of pages of the smallest size. It must not exceed the total memory of these
    pages in the cell; for a guest with dedicated CPUs, it must not exceed their free memory.
    """
    total, free = cell.small_pages_mb
    if required.memory > total or (required.cpu_policy != SHARED and required.memory > free):
        return _shortage(cell, "MEMORY_MB", "MB", required.memory, free, total)
    return _over_limit(required, cell, limits)


def _over_limit(
    required: CellRequirements, cell: CellCapacity, limits: CellLimits
) -> Reason | None:
    """Return why memory in pages of the smallest size exceeds the limit of the ratio; None: it does
    not.

    The limit is that of all guests together. It applies to guests with shared CPUs. No ratio
    applies to larger pages.
    """
    available = _limit(cell.memory_mb, limits.ram_allocation_ratio) - cell.memory_used
    if required.cpu_policy == DEDICATED or required.memory <= available:
        return None
    return _shortage(cell, "MEMORY_MB", "MB", required.memory, available, cell.memory_mb)


def _pages_shortage(memory: int, size: int, cell: CellCapacity) -> Reason | None:
    """Return why this memory (MB) does not fit in pages of that size; None: it fits."""
    number, rest = divmod(memory * KIB_IN_MIB, size)
    if rest:
        return _no_pages(ReasonCode.NOT_A_MULTIPLE, format_size(size), memory, cell)
    total, free = cell.pages[size]
    if number <= free:
        return None
    return _shortage(cell, f"{format_size(size)} pages", "pages", number, free, total)


def _limit(total: int, ratio: Decimal) -> int:
    return int((total * ratio).to_integral_value(ROUND_FLOOR))


def _no_pages(code: ReasonCode, size: str, memory: int, cell: CellCapacity) -> Reason:
    return Reason(
        code=code,
        resource=f"{size} pages",
        where=cell.where,
        requested=memory,
        available=0,
        unit="MB",
    )


def _shortage(
    cell: CellCapacity, resource: str, unit: str, requested: int, available: int, total: int
) -> Reason:
    """Return the reason for a request of more than a cell has in all, or else of more than is
    available.
    """
    exceeds = requested > total
    return Reason(
        code=ReasonCode.EXCEEDS_CELL if exceeds else ReasonCode.INSUFFICIENT,
        resource=resource,
        where=cell.where,
        requested=requested,
        available=total if exceeds else max(0, available),
        unit=unit,
    )
