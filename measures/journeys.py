"""How far single arguments travel.

A stay is a stretch of the journey in one room: functions that receive the argument one after the
other. A room is a top-level module or package of rtagent. `measures.flow` defines which functions
receive an argument.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

from mypy.nodes import FuncDef

from measures.flow import Trip
from measures.measure import Measure
from measures.program import Program

PACKAGE = "rtagent"


@dataclass(frozen=True)
class Start:
    """Where a journey starts.

    :ivar functions: shell patterns of dotted names; the first that names a function counts, and of
        several functions the one whose name is the shortest.
    :ivar argument: the parameter: its position, that of ``self`` not counted.
    :ivar until: shell pattern of the function that ends the journey; "": it is followed to its end.
    :ivar stays: at most so many. :ivar rooms: at most so many; None: any number.
    """

    name: str
    functions: tuple[str, ...]
    argument: int
    until: str
    stays: int
    rooms: int | None = None


STORED = "rtagent.*.Store.commit"
STARTS = (
    Start("build claim", ("rtagent.rpc.*Endpoint*.instance_claim",), 0, STORED, 12, 9),
    Start("resize", ("rtagent.rpc.*Endpoint*.resize_claim",), 0, STORED, 25, 12),
    Start("audit plan", ("rtagent.reconcile.plan.plan", "rtagent.reconcile*.plan"), 1, "", 12),
)


@dataclass(frozen=True)
class Journey:
    """One argument's journey.

    :ivar calls: dotted names of the functions that received it, in order.
    :ivar modules: the module of each.
    """

    start: Start
    calls: tuple[str, ...]
    modules: tuple[str, ...]

    @property
    def stretches(self) -> list[tuple[str, list[str]]]:
        """Each stay: the room, and the functions that received the argument there."""
        pairs = zip(map(_room, self.modules), self.calls, strict=True)
        return [
            (room, [call for _, call in calls])
            for room, calls in groupby(pairs, key=lambda pair: pair[0])
        ]

    def measures(self) -> Iterator[Measure]:
        """The counts of this journey."""
        start, rooms = self.start, {room for room, _ in self.stretches}
        yield Measure(f"{start.name}: stays", len(self.stretches), start.stays)
        yield Measure(f"{start.name}: rooms", len(rooms), start.rooms)
        yield Measure(f"{start.name}: modules", len(set(self.modules)))
        yield Measure(f"{start.name}: functions", len(set(self.calls)))


def journey(program: Program, start: Start) -> Journey:
    """Follow one argument.

    :raises LookupError: the start is not found, or the end is not reached.
    """
    function = _function(program, start)
    arguments = [each.variable.name for each in function.arguments if not each.variable.is_self]
    trip = Trip(program, function, arguments[start.argument], start.until)
    if not trip.arrived:
        raise LookupError(f"{start.name}: {start.until} does not receive the argument")
    return Journey(start, tuple(trip.calls), tuple(map(program.module, trip.calls)))


def _function(program: Program, start: Start) -> FuncDef:
    for pattern in start.functions:
        found = program.functions(pattern)
        if found:
            return min(found, key=lambda function: len(function.fullname))
    raise LookupError(f"{start.name}: no function is named {' or '.join(start.functions)}")


def _room(module: str) -> str:
    return ".".join(module.split(".")[:2])
