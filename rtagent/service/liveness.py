"""Liveness: whether the process makes progress by itself, whatever others do."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from rtagent.ports import Clock
from rtagent.service.loop import Loop

#: The name of the thread that feeds the watchdog.
MAIN = "main"


class Liveness:
    """The progress of the main thread and of the vital threads. Thread-safe.

    Every wait of these threads for others is bounded, so an outage of them is no hang.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._loops: Sequence[Loop] = ()
        self._limit = math.inf
        self._beaten = clock.monotonic()

    def watch(self, loops: Sequence[Loop], limit: float) -> None:
        """Check these threads from now on, and the one that calls `beat`.

        :param limit: a thread that is overdue for more seconds counts as hung.
        """
        self.beat()
        self._loops, self._limit = tuple(loops), limit

    def beat(self) -> None:
        """Note that the main thread makes progress."""
        self._beaten = self._clock.monotonic()

    def hung(self) -> tuple[str, ...]:
        """Return the threads that hang, and for how long: ``audit for 312 s``."""
        return tuple(
            f"{name} for {seconds:.0f} s"
            for name, seconds in self.overdue().items()
            if seconds > self._limit
        )

    def overdue(self) -> Mapping[str, float]:
        """Return the seconds since the last progress that was due, by thread."""
        main = self._clock.monotonic() - self._beaten
        return {MAIN: main, **{loop.name: loop.overdue for loop in self._loops}}
