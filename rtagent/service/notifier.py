"""What systemd is told (sd_notify)."""

from __future__ import annotations

import os
import time

from sdnotify import SystemdNotifier

#: The longest status line.
MAX_STATUS = 500


class Notifier:
    """Silent where systemd, or whoever made NOTIFY_SOCKET, is not there."""

    def __init__(self) -> None:
        self._systemd = SystemdNotifier()
        self._status = ""
        self._ready = False

    @property
    def watchdog_seconds(self) -> float | None:
        """Within which systemd wants to hear from us, or None when it does not."""
        for_us = os.environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        text = os.environ.get("WATCHDOG_USEC", "")
        return int(text) / 1e6 if for_us and text.isdigit() else None

    def ready(self) -> None:
        """Once: the start is over."""
        if not self._ready:
            self._ready = True
            self._systemd.notify("READY=1")

    def reloading(self) -> None:
        """Followed by `reloaded`."""
        if self._ready:
            self._systemd.notify(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def reloaded(self) -> None:
        """The configuration in force is settled, whichever it is."""
        if self._ready:
            self._systemd.notify("READY=1")

    def stopping(self) -> None:
        self._systemd.notify("STOPPING=1")

    def alive(self) -> None:
        """Feed the watchdog, if there is one."""
        if self.watchdog_seconds is not None:
            self._systemd.notify("WATCHDOG=1")

    def status(self, sentence: str) -> None:
        """One line for ``systemctl status``; nothing when it is the same as before."""
        line = " ".join(sentence.split())[:MAX_STATUS]
        if line != self._status:
            self._status = line
            self._systemd.notify(f"STATUS={line}")
