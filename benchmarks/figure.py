"""Figure: one measured value with its floor and its target."""

from __future__ import annotations

from msgspec import Struct


class Figure(Struct, frozen=True, kw_only=True):
    """:ivar floor: the cost of the indispensable parts, measured in the same run; None if the
        target is an absolute value.
    :ivar ratio: value / floor. :ivar target: for the ratio, or for the value if there is no floor.
    :ivar at_least: the target is a lower bound.
    """

    name: str
    value: float
    unit: str
    target: float
    floor: float | None = None
    at_least: bool = False

    @property
    def ratio(self) -> float | None:
        return None if self.floor is None else self.value / self.floor

    @property
    def met(self) -> bool:
        judged = self.value if self.ratio is None else self.ratio
        return judged >= self.target if self.at_least else judged <= self.target

    @property
    def wanted(self) -> str:
        """The target in words: ``at most 1.5 x the floor``."""
        sign = "at least" if self.at_least else "at most"
        of = self.unit if self.floor is None else "x the floor"
        return f"{sign} {self.target:g} {of}"

    def as_dict(self) -> dict[str, object]:
        """Shape: ``{"value", "unit", "floor", "ratio", "target", "met"}``."""
        return {
            "value": self.value,
            "unit": self.unit,
            "floor": self.floor,
            "ratio": self.ratio,
            "target": self.target,
            "met": self.met,
        }
