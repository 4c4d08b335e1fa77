"""Health: each part's last word, and since when it is so."""

from __future__ import annotations

import threading

from rtagent.model.health import Check, Status
from rtagent.ports import Clock


class Health:
    """Thread-safe."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._checks: dict[str, Check] = {}

    def note(self, part: str, status: str, output: str = "") -> bool:
        """Whether the part's status is another one than before; its time is of the last change."""
        now = Status(status)
        with self._lock:
            last = self._checks.get(part)
            changed = last is None or last.status != now
            since = self._clock.now() if last is None or changed else last.time
            self._checks[part] = Check(part=part, status=now, time=since, output=output)
        return changed

    def checks(self) -> tuple[Check, ...]:
        """Every part, by name."""
        with self._lock:
            return tuple(self._checks[part] for part in sorted(self._checks))
