"""Columns that a person reads otherwise than a program does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cliff.columns import FormattableColumn


class Yes(FormattableColumn[Any]):
    """Anything true is "yes" to a person."""

    def human_readable(self) -> str:
        return "yes" if self._value else ""


class Nothing(FormattableColumn[Any]):
    """None is an empty cell to a person."""

    def human_readable(self) -> str:
        return "" if self._value is None else str(self._value)


class Pairs(FormattableColumn[Mapping[str, Any]]):
    """``name=value`` a line; what says nothing is left out for a person."""

    def human_readable(self) -> str:
        told = {k: v for k, v in self._value.items() if v not in (None, "", {}, [])}
        return "\n".join(f"{name}={value}" for name, value in told.items())


class Lines(FormattableColumn[Sequence[Any]]):
    """One item a line."""

    def human_readable(self) -> str:
        return "\n".join(map(str, self._value))


def when(text: str | None) -> Nothing:
    """A time of a document: UTC, ISO 8601, whole seconds."""
    if text is None:
        return Nothing(None)
    day_and_time = text.removesuffix("Z").removesuffix("+00:00")
    return Nothing(day_and_time.partition(".")[0] + "Z")
