"""Watchdog: systemd hears from us only while the loops that matter make progress."""

from __future__ import annotations

from collections.abc import Sequence

from rtagent.ports import Reporter
from rtagent.service.loop import Loop
from rtagent.service.notifier import Notifier

PART = "watchdog"


class Watchdog:
    """:param seconds: a loop that is overdue for longer has hung."""

    def __init__(
        self, seconds: float, loops: Sequence[Loop], notifier: Notifier, reporter: Reporter
    ) -> None:
        self._seconds, self._loops = seconds, loops
        self._notifier, self._reporter = notifier, reporter

    def look(self) -> None:
        """Feed it, or name the loop that hangs."""
        hung = [
            f"{loop.name} for {loop.overdue:.0f} s"
            for loop in self._loops
            if loop.overdue > self._seconds
        ]
        if hung:
            self._reporter.health(PART, "fail", f"no progress: {', '.join(hung)}")
        else:
            self._reporter.health(PART, "pass")
            self._notifier.alive()
