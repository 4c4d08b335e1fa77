"""systemd: notifications of the service manager (sd_notify), its watchdog, and whether the process
makes progress by itself, whatever others do.
"""

import math
import os
import time
from collections.abc import Mapping, Sequence

from sdnotify import SystemdNotifier

from rtagent.model.printable import printable
from rtagent.ports import Clock, Reporter
from rtagent.service.loop import Turn

#: The name of the thread that feeds the watchdog.
MAIN = "main"


class Liveness:
    """The progress of the main thread and of the vital turns. Thread-safe.

    Every wait of these for others is bounded, so an outage of them is no hang.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._turns: Sequence[Turn] = ()
        self._others: Sequence[Turn] = ()
        self._limit = math.inf
        self._beaten = clock.monotonic()

    def watch(self, turns: Sequence[Turn], limit: float, others: Sequence[Turn] = ()) -> None:
        """Check these turns from now on, and the thread that calls `beat`.

        :param limit: one that is overdue for more seconds counts as hung.
        :param others: turns without which the process still does what matters.
        """
        self.beat()
        self._turns, self._limit = tuple(turns), limit
        self._others = tuple(turn for turn in others if turn not in turns)

    def beat(self) -> None:
        """Note that the main thread makes progress."""
        self._beaten = self._clock.monotonic()

    def hung(self) -> tuple[str, ...]:
        """Return what hangs, and for how long: ``audit for 312 s``."""
        return self._too_long(self.overdue())

    def others_hung(self) -> tuple[str, ...]:
        """Return which of the others hang, or wait for one that does, in the same way."""
        return self._too_long({turn.name: turn.overdue for turn in self._others})

    def _too_long(self, overdue: Mapping[str, float]) -> tuple[str, ...]:
        return tuple(
            f"{name} for {seconds:.0f} s"
            for name, seconds in overdue.items()
            if seconds > self._limit
        )

    def overdue(self) -> Mapping[str, float]:
        """Return the seconds since the last progress that was due, by the name of the turn."""
        main = self._clock.monotonic() - self._beaten
        return {MAIN: main, **{turn.name: turn.overdue for turn in self._turns}}


#: The longest status line.
MAX_STATUS = 500
#: The watchdog's part in health.
WATCHDOG = "watchdog"


class Notifier:
    """Sends the state of the process to systemd, or to another owner of NOTIFY_SOCKET.

    Does nothing without that variable.
    """

    def __init__(self) -> None:
        self._systemd = SystemdNotifier()
        self._status = ""
        self._ready = False

    @property
    def watchdog_seconds(self) -> float | None:
        """Seconds within which systemd expects `alive`, or None without a watchdog."""
        for_us = os.environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        text = os.environ.get("WATCHDOG_USEC", "")
        return int(text) / 1e6 if for_us and text.isdigit() else None

    def ready(self) -> None:
        """Report the end of the start. Sent only once."""
        if not self._ready:
            self._ready = True
            self._systemd.notify("READY=1")

    def reloading(self) -> None:
        """Report the start of a reload; `reloaded` follows."""
        if self._ready:
            self._systemd.notify(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def reloaded(self) -> None:
        """Report the end of a reload, even if the configuration has not changed."""
        if self._ready:
            self._systemd.notify("READY=1")

    def stopping(self) -> None:
        """Report the start of the shutdown."""
        self._systemd.notify("STOPPING=1")

    def alive(self) -> None:
        """Feed the watchdog, if there is one."""
        if self.watchdog_seconds is not None:
            self._systemd.notify("WATCHDOG=1")

    def status(self, sentence: str) -> None:
        """Set the line that ``systemctl status`` shows, if it has changed."""
        line = printable(" ".join(sentence.split()), MAX_STATUS)
        if line != self._status:
            self._status = line
            self._systemd.notify(f"STATUS={line}")


class Watchdog:
    """Feeds systemd's watchdog while every vital thread makes progress."""

    def __init__(self, liveness: Liveness, notifier: Notifier, reporter: Reporter) -> None:
        self._liveness, self._notifier = liveness, notifier
        self._reporter = reporter.named(__name__)

    def check(self) -> None:
        """Feed the watchdog unless a vital turn hangs. Report what hangs."""
        self._liveness.beat()
        hung, others = self._liveness.hung(), self._liveness.others_hung()
        status = "fail" if hung else "warn" if others else "pass"
        why = f"no progress: {', '.join((*hung, *others))}" if hung or others else ""
        self._reporter.health(WATCHDOG, status, why)
        if not hung:
            self._notifier.alive()
