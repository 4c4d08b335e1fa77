"""CallLimit: bounds how many calls of a slow method are served at once.

oslo.messaging serves each call on one of ``executor_thread_pool_size`` threads until the method
returns. A call that waits for Placement or libvirt keeps its thread, and many of them would leave
no thread for claims, ends and reads. So a call over the limit is refused at once. It is not queued,
because a queued call would keep a thread, too.
"""

from __future__ import annotations

import threading
from types import TracebackType

from rtagent.errors import TooManyRequests

#: The fewest threads that serve calls, which is oslo.messaging's default.
THREADS = 64
#: How many calls of each slow method are served at once. All slow methods, and the calls that wait
#: for host CPUs (`rtagent.service.power.SETTLING`), together leave a quarter of the
#: threads to the others.
SLOW_CALLS = 3


class CallLimit:
    """The context in which each call of one method is served. Thread-safe."""

    def __init__(self, method: str, limit: int = SLOW_CALLS) -> None:
        self._method, self._limit = method, limit
        self._free = threading.BoundedSemaphore(limit)

    def __enter__(self) -> None:
        """Admit a call. :raises TooManyRequests: the limit is reached."""
        if not self._free.acquire(blocking=False):
            raise TooManyRequests(
                f"{self._limit} calls of {self._method} are being served, which is the limit:"
                " repeat the call in a few seconds",
                method=self._method,
                limit=self._limit,
            )

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._free.release()
