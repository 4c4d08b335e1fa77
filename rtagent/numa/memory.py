"""Check whether the memory of a guest cell fits a host cell, and choose the page size."""

from __future__ import annotations

from decimal import ROUND_FLOOR, Decimal

from rtagent.model.decision import Reason, ReasonCode
from rtagent.model.pages import PageRequest, candidates, format_request, format_size
from rtagent.model.units import KIB_IN_MIB
from rtagent.numa.cpu_policies import DEDICATED, SHARED
from rtagent.numa.host_cells import CellCapacity, CellLimits
from rtagent.numa.requirements import CellRequirements


def page_size(
    required: CellRequirements, cell: CellCapacity, limits: CellLimits
) -> int | Reason | None:
    """Choose the size (KiB) of the pages that a guest cell takes: the largest that fits.

    :returns: None if it requests no explicit size; the reason if no size fits.
    """
    if required.pagesize is None:
        return None
    reasons: list[Reason] = []
    for size in candidates(required.pagesize, cell.pages):
        reason = _too_few_pages(required.memory, size, cell)
        if reason is None and size == min(cell.pages):
            reason = _over_limit(required, cell, limits)
        if reason is None:
            return size
        reasons.append(reason)
    if not reasons:
        return _no_such_pages(required.pagesize, required.memory, cell)
    return min(reasons, key=lambda reason: reason.miss)


def shortfall(required: CellRequirements, cell: CellCapacity, limits: CellLimits) -> Reason | None:
    """Return why memory of no explicit page size does not fit; None: it fits.

    Such memory consists of pages of the smallest size. It must not exceed the total memory of these
    pages in the cell; for a guest with dedicated CPUs, it must not exceed their free memory.
    """
    total, free = cell.small_pages_mb
    if required.memory > total:
        return _memory_reason(ReasonCode.EXCEEDS_CELL, required.memory, total, cell)
    if required.cpu_policy != SHARED and required.memory > free:
        return _memory_reason(ReasonCode.INSUFFICIENT, required.memory, max(0, free), cell)
    return _over_limit(required, cell, limits)


def _over_limit(
    required: CellRequirements, cell: CellCapacity, limits: CellLimits
) -> Reason | None:
    """Return why memory in pages of the smallest size exceeds the limit of the ratio; None: it does
    not.

    The limit is that of all guests together. It applies to guests with shared CPUs. No ratio
    applies to larger pages.
    """
    if required.cpu_policy == DEDICATED:
        return None
    limit = Decimal(cell.memory_mb) * limits.ram_allocation_ratio
    available = int(limit.to_integral_value(ROUND_FLOOR)) - cell.memory_used
    if required.memory <= available:
        return None
    return _memory_reason(ReasonCode.INSUFFICIENT, required.memory, max(0, available), cell)


def _too_few_pages(memory: int, size: int, cell: CellCapacity) -> Reason | None:
    """Return why this memory (MB) does not fit in pages of that size."""
    number, rest = divmod(memory * KIB_IN_MIB, size)
    if rest:
        return Reason(
            code=ReasonCode.NOT_A_MULTIPLE,
            resource=f"{format_size(size)} pages",
            where=cell.where,
            requested=memory,
            available=0,
            unit="MB",
        )
    total, free = cell.pages[size]
    if number <= free:
        return None
    exceeds = number > total
    return Reason(
        code=ReasonCode.EXCEEDS_CELL if exceeds else ReasonCode.INSUFFICIENT,
        resource=f"{format_size(size)} pages",
        where=cell.where,
        requested=number,
        available=total if exceeds else max(0, free),
        unit="pages",
    )


def _no_such_pages(request: PageRequest, memory: int, cell: CellCapacity) -> Reason:
    return Reason(
        code=ReasonCode.NOT_OFFERED,
        resource=f"{format_request(request)} pages",
        where=cell.where,
        requested=memory,
        available=0,
        unit="MB",
    )


def _memory_reason(code: ReasonCode, requested: int, available: int, cell: CellCapacity) -> Reason:
    return Reason(
        code=code,
        resource="MEMORY_MB",
        where=cell.where,
        requested=requested,
        available=available,
        unit="MB",
    )
