"""Sayings: sentences for the log. A warning that is repeated is logged once, then counted."""

from __future__ import annotations

import threading
from collections import OrderedDict

from rtagent.ports import Clock

#: Seconds in which a repeated warning is only counted.
WINDOW = 300.0
#: How many different warnings are remembered.
REMEMBERED = 256

REPEATABLE = frozenset({"warning", "error"})


class Sayings:
    """Thread-safe."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        # By level and sentence: when it was last let through, and how often it was held since.
        self._said: OrderedDict[tuple[str, str], tuple[float, int]] = OrderedDict()

    def admit(self, level: str, sentence: str) -> str | None:
        """The line to log, or None when it was logged less than `WINDOW` seconds ago."""
        if level not in REPEATABLE:
            return sentence
        key, now = (level, sentence), self._clock.monotonic()
        with self._lock:
            last, held = self._said.pop(key, (now - WINDOW, 0))
            fresh = now - last >= WINDOW
            self._said[key] = (now, 0) if fresh else (last, held + 1)
            if len(self._said) > REMEMBERED:
                self._said.popitem(last=False)
        if not fresh:
            return None
        return f"{sentence} (and {held} times since it was last logged)" if held else sentence
