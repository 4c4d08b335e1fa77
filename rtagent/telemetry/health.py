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
        """Whether that is news: a part counts as well until it says otherwise. The time kept is
        that of the last change of the status."""
        now = Status(status)
        with self._lock:
            last = self._checks.get(part)
            same = last is not None and last.status == now
            since = last.time if last is not None and same else self._clock.now()
            self._checks[part] = Check(part=part, status=now, time=since, output=output)
        return not same and (last is not None or now != Status.PASS)

    def checks(self) -> tuple[Check, ...]:
        """Every part, by name."""
        with self._lock:
            return tuple(self._checks[part] for part in sorted(self._checks))
