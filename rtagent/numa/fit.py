"""Whether and where a guest fits: the one function that grants CPUs, cells and pages.

Pure and stable: the same arguments give the same answer. Every guest cell is looked at on every
host cell by itself (`table`), then each is given one of its own (`search`).
"""

from __future__ import annotations

from collections.abc import Sequence

from rtagent.model.assignment import Assignment
from rtagent.model.base import Value
from rtagent.model.decision import Refused, refuse
from rtagent.numa.assigning import assignment
from rtagent.numa.constraints import Constraints
from rtagent.numa.cpu_policy import SHARED
from rtagent.numa.devices import Devices
from rtagent.numa.host import Host
from rtagent.numa.limits import CellLimits
from rtagent.numa.order import order
from rtagent.numa.refusal import not_offered, unplaced
from rtagent.numa.room import Room, rooms
from rtagent.numa.search import STEPS, Search
from rtagent.numa.shape import shapes
from rtagent.numa.table import table


class Fitted(Value, frozen=True):
    """It fits, so."""

    assignment: Assignment


def fit(
    asked: Constraints,
    host: Host,
    limits: CellLimits,
    devices: Devices | None = None,
    steps: int = STEPS,
) -> Fitted | Refused:
    """A place for the guest, or every reason against it.

    :param devices: that it asks for, or is to be steered off; None: there are none here.
    :param steps: after which a search among placements that the devices refuse gives up, and says
        so (`ReasonCode.UNDECIDED`).
    """
    reasons = tuple(not_offered(asked, host))
    if reasons:
        return refuse(reasons)
    there = _ordered(asked, host, devices) if asked.cells else ()
    rows = table(shapes(asked), there, limits)
    search = Search([list(row.slots) for row in rows], devices, steps)
    cells = search.placement()
    if cells is None:
        return refuse(unplaced(rows, host, devices, search))
    slots = [(cell, row.slots[cell]) for cell, row in zip(cells, rows, strict=True)]
    return Fitted(assignment(asked, host, there, slots))


def _ordered(asked: Constraints, host: Host, devices: Devices | None) -> Sequence[Room]:
    """The host's cells, the one to be tried first at the head. A guest with as many cells as the
    host has takes them as they come."""
    there = rooms(host.topology, host.usage, host.policy)
    if len(there) == len(asked.cells):
        return there
    by_room = order(host.policy.packing).ordered(there, asked.cpu_policy != SHARED)
    if devices is None:
        return by_room
    return sorted(by_room, key=lambda room: devices.weight(room.id))
