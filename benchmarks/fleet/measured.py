"""What a run has measured: values and curves, by phase."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct


class Value(Struct, frozen=True, kw_only=True):
    """One measured value. :ivar target: the largest that is wanted; None: there is none."""

    name: str
    value: float
    unit: str
    target: float | None = None

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None: there is none."""
        return None if self.target is None else self.value <= self.target


class Curves(Struct, frozen=True, kw_only=True):
    """Curves with common axes. :ivar lines: (x, y) of each point, by the name of the curve."""

    title: str
    x: str
    y: str
    lines: Mapping[str, Sequence[tuple[float, float]]]


class Comparison(Struct, frozen=True, kw_only=True):
    """Values of several fleets. :ivar columns: the title of each column.
    :ivar rows: the texts of each row.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


class Phase(Struct, frozen=True, kw_only=True):
    """:ivar what: what was done, in a sentence."""

    name: str
    what: str
    values: tuple[Value, ...] = ()
    curves: tuple[Curves, ...] = ()
    comparison: Comparison | None = None


class Measurements(Struct, kw_only=True):
    """A whole run. :ivar machine: what it ran on, in a sentence."""

    hosts: int
    machine: str
    phases: list[Phase]

    @property
    def missed(self) -> list[Value]:
        """The values that miss their target."""
        return [value for phase in self.phases for value in phase.values if value.met is False]
