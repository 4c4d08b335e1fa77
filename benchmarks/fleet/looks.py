"""Looks: at a fleet, again and again, until something has happened."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

#: The least seconds between two looks, and the largest share of the time that looks take.
LOOK, SHARE = 1.0, 0.2


class Looks:
    """Looks at a fleet, which use some of the CPU time that the agents need."""

    def __init__(self, patience: float) -> None:
        """:param patience: seconds for all of them."""
        self._deadline = time.monotonic() + patience
        self._took = 0.0

    def take(self, look: Callable[[], T]) -> T:
        """Look, and return what is seen."""
        began = time.monotonic()
        try:
            return look()
        finally:
            self._took = time.monotonic() - began

    def rest(self, why: str) -> None:
        """Wait until the next look. :raises TimeoutError: says why, if it is too late."""
        if time.monotonic() > self._deadline:
            raise TimeoutError(why)
        time.sleep(max(LOOK, self._took / SHARE))
