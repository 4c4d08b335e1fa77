"""A reporter that keeps what it gets."""

from __future__ import annotations

from rtagent.ports import NullReporter


class Reports(NullReporter):
    """:ivar parts: status and output by part. :ivar logged: level and sentence, in order."""

    def __init__(self) -> None:
        self.parts: dict[str, tuple[str, str]] = {}
        self.logged: list[tuple[str, str]] = []

    def health(self, part: str, status: str, output: str = "") -> None:
        self.parts[part] = status, output

    def log(self, level: str, sentence: str) -> None:
        self.logged.append((level, sentence))
