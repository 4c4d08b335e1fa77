"""Back-off: ever longer pauses between attempts."""

from __future__ import annotations

#: Seconds before the first repeat; doubled each time.
FIRST = 0.25
#: The longest pause, seconds: how late a return of what was away is noticed.
LAST = 10.0


class Backoff:
    """The pauses of one thread's attempts."""

    def __init__(self, first: float = FIRST, last: float = LAST) -> None:
        self._first, self._last = first, last
        self._next = first

    def pause(self) -> float:
        """Seconds to wait after one more failure."""
        pause, self._next = self._next, min(self._next * 2, self._last)
        return pause

    def reset(self) -> None:
        """It worked."""
        self._next = self._first
