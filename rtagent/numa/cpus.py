"""Whether a guest cell's vCPUs fit a host cell, and which host CPUs they would take."""

from __future__ import annotations

from decimal import ROUND_FLOOR, Decimal

from rtagent.model.decision import Reason, ReasonCode
from rtagent.numa.limits import CellLimits
from rtagent.numa.room import Room
from rtagent.numa.shape import Shape
from rtagent.numa.threads import POLICIES, Taking


def shortfall(shape: Shape, room: Room, limits: CellLimits) -> Reason | None:
    """Why so many shared vCPUs cannot float there: a guest cell never has more than the host cell
    has CPUs, and all guests together not more than the limit."""
    total = len(room.shared)
    if shape.vcpus > total:
        return _shared(ReasonCode.EXCEEDS_CELL, shape, total, room)
    limit = Decimal(total) * limits.cpu_allocation_ratio
    available = int(limit.to_integral_value(ROUND_FLOOR)) - room.vcpus
    if shape.vcpus and shape.vcpus > available:
        return _shared(ReasonCode.INSUFFICIENT, shape, max(0, available), room)
    return None


def taking(shape: Shape, room: Room) -> Taking | Reason:
    """Host CPUs for its dedicated vCPUs, and for the emulator if that has one."""
    needed = shape.pcpus + shape.reserved
    if not needed:
        return Taking()
    policy = POLICIES[shape.cpu_thread_policy]
    taken = policy.take(room.cores, shape.pcpus, shape.reserved)
    if taken is not None:
        return taken
    exceeds = needed > room.dedicated
    return Reason(
        code=ReasonCode.EXCEEDS_CELL if exceeds else ReasonCode.INSUFFICIENT,
        resource="PCPU",
        where=room.where,
        requested=needed,
        available=room.dedicated if exceeds else min(room.free_pcpus, policy.available(room.cores)),
        unit="CPUs" if exceeds else policy.UNIT,
    )


def _shared(code: ReasonCode, shape: Shape, available: int, room: Room) -> Reason:
    return Reason(
        code=code,
        resource="VCPU",
        where=room.where,
        requested=shape.vcpus,
        available=available,
        unit="vCPUs",
    )
