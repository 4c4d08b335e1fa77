"""Repeated calls. Patience: while a repetition may succeed. `background`: during a long step."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import TypeVar

from rtagent.errors import AllocationNotWritten, RtAgentError
from rtagent.ports import Clock

#: Seconds before the first repetition; each wait is twice as long as the one before.
FIRST_WAIT, LONGEST_WAIT = 0.5, 8.0

T = TypeVar("T")


def may_succeed_later(error: RtAgentError) -> bool:
    """Return whether the same call, with the same operation id, may succeed later."""
    return error.retriable and not isinstance(error, AllocationNotWritten)


class Patience:
    """Repeats calls. Time is an argument, so that tests control it."""

    def __init__(self, clock: Clock, pause: Callable[[float], None], deadline: float) -> None:
        """:param pause: waits for some seconds.
        :param deadline: on the monotonic clock, after which nothing is repeated.
        """
        self._clock, self._pause, self._deadline = clock, pause, deadline

    def repeat(
        self,
        call: Callable[[], T],
        seconds: float,
        check: Callable[[], object] = lambda: None,
        retriable: Callable[[RtAgentError], bool] = may_succeed_later,
    ) -> T:
        """Return what the call returns; repeat it for some seconds while its error is retriable.

        :param check: is called before each call. Its error counts as the call's.
        :param retriable: returns whether a repetition may resolve an error.
        :raises RtAgentError: the last error.
        """
        until = min(self._clock.monotonic() + seconds, self._deadline)
        wait = FIRST_WAIT
        while True:
            try:
                check()
                return call()
            except RtAgentError as error:
                left = until - self._clock.monotonic()
                if not retriable(error) or left <= 0:
                    raise
                self._pause(min(wait, left))
                wait = min(2 * wait, LONGEST_WAIT)


@contextmanager
def background(
    name: str, calls: Sequence[Callable[[], object]], interval: float, limit: float | None = None
) -> Iterator[None]:
    """A context in which calls are repeated at an interval.

    The thread ends with the context, with an error that is not retriable, or after `limit` seconds.
    Without a limit, it goes on as long as the context: the work there is not finished.

    :param calls: each is bounded in time. An error that is retriable is ignored, because the next
        turn repeats the call.
    """
    stop = threading.Event()

    def run() -> None:
        for _ in count() if limit is None else range(max(1, int(limit / interval))):
            if stop.wait(interval):
                return
            for call in calls:
                try:
                    call()
                except RtAgentError as error:
                    if not error.retriable:
                        return

    if calls:
        threading.Thread(target=run, name=name, daemon=True).start()
    try:
        yield
    finally:
        stop.set()  # not joined: a call in the thread may take as long as its time-out
