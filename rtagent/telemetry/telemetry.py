"""Telemetry: the reporter of a running agent."""

from __future__ import annotations

import logging

from oslo_log import log

from rtagent.model.health import Check, Status
from rtagent.ports import Clock
from rtagent.telemetry.health import Health
from rtagent.telemetry.metrics import Metrics
from rtagent.telemetry.sayings import Sayings

LOG = log.getLogger("rtagent")

LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}
#: At which level a part's new status is logged.
STATUS_LEVELS = {Status.PASS: "info", Status.WARN: "warning", Status.FAIL: "error"}


class Telemetry:
    """A `Reporter`. Thread-safe; each method returns at once."""

    def __init__(self, clock: Clock) -> None:
        self.metrics = Metrics()
        self._health = Health(clock)
        self._sayings = Sayings(clock)

    def timed(self, name: str, purpose: str, seconds: float) -> None:
        self.metrics.timed(name, purpose, seconds)

    def counted(self, name: str, label: str, number: int = 1) -> None:
        self.metrics.counted(name, label, number)

    def health(self, part: str, status: str, output: str = "") -> None:
        if self._health.note(part, status, output):
            why = f": {output}" if output else ""
            self.said(STATUS_LEVELS[Status(status)], f"health of {part} is {status}{why}")

    def said(self, level: str, sentence: str) -> None:
        line = self._sayings.admit(level, sentence)
        if line is None:
            self.metrics.counted("repeated", level)
        else:
            LOG.log(LEVELS[level], line)

    def checks(self) -> tuple[Check, ...]:
        """Every part that has said how it is."""
        return self._health.checks()
