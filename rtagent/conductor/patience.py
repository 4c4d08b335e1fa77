"""Patience: repeats a call while a repetition may succeed."""

from __future__ import annotations

from collections.abc import Callable
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
