"""InFlight: the calls that a server serves at present."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from rtagent.ports import Clock


class InFlight:
    """The calls that are being served.

    Thread-safe: each thread serves one call at a time, and single operations of a dict are atomic.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._calls: dict[int, tuple[str, float]] = {}

    @contextmanager
    def call(self, name: str) -> Iterator[None]:
        """Count a call as in flight during the block."""
        thread = threading.get_ident()
        self._calls[thread] = (name, self._clock.monotonic())
        try:
            yield
        finally:
            del self._calls[thread]

    def __len__(self) -> int:
        return len(self._calls)

    def __str__(self) -> str:
        """Each call and its age in seconds, oldest first."""
        now = self._clock.monotonic()
        calls = sorted(self._calls.copy().values(), key=lambda call: call[1])
        return ", ".join(f"{name} for {now - started:.1f} s" for name, started in calls)
