"""systemd: notifications of the service manager (sd_notify), and its watchdog."""

from __future__ import annotations

import os
import time

from sdnotify import SystemdNotifier

from rtagent.model.printable import printable
from rtagent.ports import Reporter
from rtagent.service.liveness import Liveness

#: The longest status line.
MAX_STATUS = 500
#: The watchdog's part in health.
PART = "watchdog"


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
        """Feed the watchdog, or report the threads that hang."""
        self._liveness.beat()
        if hung := self._liveness.hung():
            self._reporter.health(PART, "fail", f"no progress: {', '.join(hung)}")
        else:
            self._reporter.health(PART, "pass")
            self._notifier.alive()
