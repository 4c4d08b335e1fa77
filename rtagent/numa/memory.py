"""Whether a guest cell's memory fits a host cell, and in pages of which size."""

from __future__ import annotations

from decimal import ROUND_FLOOR, Decimal

from rtagent.model.decision import Reason, ReasonCode
from rtagent.model.pages import KIB_IN_MIB, PageRequest, candidates, format_size
from rtagent.numa.cpu_policy import DEDICATED, SHARED
from rtagent.numa.limits import CellLimits
from rtagent.numa.room import Room
from rtagent.numa.shape import Shape


def pagesize(shape: Shape, room: Room) -> int | Reason | None:
    """KiB, of the pages of an explicit size that it would take; None when none is asked for."""
    if shape.pagesize is None:
        return None
    misses: list[Reason] = []
    for size in candidates(shape.pagesize, room.pages):
        miss = _miss(shape.memory, size, room)
        if miss is None:
            return size
        misses.append(miss)
    if not misses:
        return _not_offered(shape.pagesize, shape.memory, room)
    return min(misses, key=lambda reason: reason.miss)


def shortfall(shape: Shape, room: Room, limits: CellLimits) -> Reason | None:
    """Why memory of no explicit page size cannot be had.

    It comes from pages of the smallest size: of a guest without dedicated CPUs it must fit what the
    cell has of them, of one with dedicated CPUs what is free. What all guests have together is
    limited too, for those that have shared CPUs.
    """
    total, free = room.ordinary_mb
    if shape.memory > total:
        return _reason(ReasonCode.EXCEEDS_CELL, shape.memory, total, room)
    available = total
    if shape.cpu_policy != SHARED:
        available = min(available, free)
    if shape.cpu_policy != DEDICATED:
        available = min(available, _limit(room, limits) - room.memory_used)
    if shape.memory > available:
        return _reason(ReasonCode.INSUFFICIENT, shape.memory, max(0, available), room)
    return None


def _limit(room: Room, limits: CellLimits) -> int:
    limit = Decimal(room.memory_mb) * limits.ram_allocation_ratio
    return int(limit.to_integral_value(ROUND_FLOOR))


def _miss(memory: int, size: int, room: Room) -> Reason | None:
    """Why not so many MB in pages of that size."""
    number, rest = divmod(memory * KIB_IN_MIB, size)
    if rest:
        return Reason(
            code=ReasonCode.NOT_A_MULTIPLE,
            resource=f"{format_size(size)} pages",
            where=room.where,
            requested=memory,
            available=0,
            unit="MB",
        )
    total, free = room.pages[size]
    if number <= free:
        return None
    exceeds = number > total
    return Reason(
        code=ReasonCode.EXCEEDS_CELL if exceeds else ReasonCode.INSUFFICIENT,
        resource=f"{format_size(size)} pages",
        where=room.where,
        requested=number,
        available=total if exceeds else max(0, free),
        unit="pages",
    )


def _not_offered(request: PageRequest, memory: int, room: Room) -> Reason:
    return Reason(
        code=ReasonCode.NOT_OFFERED,
        resource=f"{request if isinstance(request, str) else format_size(request)} pages",
        where=room.where,
        requested=memory,
        available=0,
        unit="MB",
    )


def _reason(code: ReasonCode, requested: int, available: int, room: Room) -> Reason:
    return Reason(
        code=code,
        resource="MEMORY_MB",
        where=room.where,
        requested=requested,
        available=available,
        unit="MB",
    )
