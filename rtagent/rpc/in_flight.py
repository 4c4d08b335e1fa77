"""InFlight, the calls that a server serves at present; and CallLimit, which bounds those of a slow
method.

oslo.messaging serves each call on one of ``executor_thread_pool_size`` threads until the method
returns. A call that waits for Placement or libvirt keeps its thread, and many of them would leave
no thread for claims, ends and reads. So a call over the limit is refused at once. It is not queued,
because a queued call would keep a thread, too.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from rtagent.errors import TooManyRequests
from rtagent.ports import Clock

#: The fewest threads that serve calls, which is oslo.messaging's default.
THREADS = 64
#: How many calls of each slow method are served at once. All slow methods, and the calls that wait
#: for host CPUs (`rtagent.service.power.SETTLING`), together leave a quarter of the
#: threads to the others.
SLOW_CALLS = 3


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


class CallLimit:
    """Bounds the calls of one method that are served at once. Thread-safe."""

    def __init__(self, method: str, limit: int = SLOW_CALLS) -> None:
        self._method, self._limit = method, limit
        self._free = threading.BoundedSemaphore(limit)

    @contextmanager
    def call(self) -> Iterator[None]:
        """Admit a call for the length of a block. :raises TooManyRequests: the limit is reached."""
        if not self._free.acquire(blocking=False):
            raise TooManyRequests(
                f"{self._limit} calls of {self._method} are being served, which is the limit:"
                " repeat the call in a few seconds",
                method=self._method,
                limit=self._limit,
            )
        try:
            yield
        finally:
            self._free.release()
