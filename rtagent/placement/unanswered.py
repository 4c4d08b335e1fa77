"""UnansweredWrites: consumers whose write had no answer, and which are read again later."""

from __future__ import annotations

import math
from collections.abc import Iterable

#: Seconds after which a request without an answer is executed or lost. Servers and proxies give up
#: a request within 60 seconds.
SETTLED = 120.0


class UnansweredWrites:
    """For one thread at a time. Times are seconds of one monotonic clock.

    Placement may execute a request after its sender has given it up, and after later requests. A
    claim that was aborted meanwhile would leave its allocation there.
    """

    def __init__(self) -> None:
        self._settled_at: dict[str, float] = {}

    @property
    def due(self) -> float:
        """When the next consumer is to be read again; infinity: there is none."""
        return min(self._settled_at.values(), default=math.inf)

    def add(self, consumers: Iterable[str], now: float) -> None:
        """Note that the write of these consumers had no answer."""
        self._settled_at.update(dict.fromkeys(consumers, now + SETTLED))

    def settled(self, now: float) -> frozenset[str]:
        """Return the consumers that are to be read again now."""
        return frozenset(uuid for uuid, at in self._settled_at.items() if at <= now)

    def remove(self, consumers: Iterable[str]) -> None:
        """Forget these consumers."""
        for uuid in consumers:
            del self._settled_at[uuid]

    def clear(self) -> None:
        """Forget all consumers."""
        self._settled_at.clear()
