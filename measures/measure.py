"""One line of the table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Measure:
    """A count, and what it should be.

    :ivar target: the value that it should have at most; None: it is shown for information.
    :ivar least: the value that it should have at least.
    """

    name: str
    value: float
    target: float | None = None
    least: float | None = None

    @property
    def wanted(self) -> str:
        """The target as a person reads it."""
        if self.target is None:
            return ""
        if self.least is not None:
            return f"{self.least:g} to {self.target:g}"
        return f"at most {self.target:g}"

    @property
    def met(self) -> bool | None:
        """Whether the value is as wanted; None: nothing is."""
        if self.target is None:
            return None
        return (self.least is None or self.least <= self.value) and self.value <= self.target

    def as_dict(self) -> dict[str, Any]:
        """JSON primitives."""
        return {"value": self.value, "target": self.wanted or None, "met": self.met}
