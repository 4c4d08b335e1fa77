"""Every guest cell against every host cell."""

from __future__ import annotations

from collections.abc import Sequence

from rtagent.model.base import Value
from rtagent.model.decision import Reason
from rtagent.numa import cpus, memory
from rtagent.numa.limits import CellLimits
from rtagent.numa.room import Room
from rtagent.numa.shape import Shape
from rtagent.numa.threads import Taking


class Slot(Value, frozen=True, kw_only=True):
    """What a guest cell would take of a host cell.

    :ivar pagesize: KiB, or None when none is asked for.
    """

    taking: Taking
    pagesize: int | None


class Row(Value, frozen=True, kw_only=True):
    """One guest cell, on each host cell by its id.

    :ivar slots: where it fits, the preferred host cell first. :ivar reasons: where it does not.
    """

    slots: dict[int, Slot]
    reasons: dict[int, tuple[Reason, ...]]


def table(shapes: Sequence[Shape], rooms: Sequence[Room], limits: CellLimits) -> tuple[Row, ...]:
    """A row for each guest cell. Guest cells of one shape share it: what they would take of a host
    cell does not depend on where the others go."""
    rows = {shape: _row(shape, rooms, limits) for shape in dict.fromkeys(shapes)}
    return tuple(rows[shape] for shape in shapes)


def _row(shape: Shape, rooms: Sequence[Room], limits: CellLimits) -> Row:
    fits = {room.id: _fit(shape, room, limits) for room in rooms}
    return Row(
        slots={cell: fit for cell, fit in fits.items() if isinstance(fit, Slot)},
        reasons={cell: fit for cell, fit in fits.items() if not isinstance(fit, Slot)},
    )


def _fit(shape: Shape, room: Room, limits: CellLimits) -> Slot | tuple[Reason, ...]:
    """What would be taken, or every reason why it does not fit."""
    taken, size = cpus.taking(shape, room), memory.pagesize(shape, room)
    others = (
        cpus.shortfall(shape, room, limits),
        memory.shortfall(shape, room, limits) if shape.pagesize is None else None,
    )
    if isinstance(taken, Reason) or isinstance(size, Reason) or any(others):
        unmet = (taken, size, *others)
        return tuple(reason for reason in unmet if isinstance(reason, Reason))
    return Slot(taking=taken, pagesize=size)
