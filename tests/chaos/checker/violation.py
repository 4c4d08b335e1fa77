"""Violation: a promise that was not kept, with the lines of the history that show it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Violation:
    """:ivar promise: its name in the architecture, or a sentence. :ivar message: what is wrong.
    :ivar lines: numbers of lines of the history.
    """

    promise: str
    message: str
    lines: tuple[int, ...]

    def __str__(self) -> str:
        listed = ", ".join(map(str, self.lines))
        return f"{self.promise}: {self.message} (lines {listed})"
