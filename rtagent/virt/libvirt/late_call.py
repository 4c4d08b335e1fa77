"""A call that may take longer than its caller waits, and whose late result is used."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class LateCall(Generic[T]):
    """One call at a time, in a thread of its own. Thread-safe.

    A call that has not returned within the time-out goes on, and its result is returned to the next
    caller. So a call that takes longer than the time-out succeeds in the end, although each caller
    waits for a bounded time only.

    :param timeout: seconds for which a caller waits.
    :param again: seconds after which another call is started although one has not returned,
        because it may never return. The first result is used.
    :param limit: how many calls may be under way at a time.
    """

    def __init__(self, timeout: float, again: float = math.inf, limit: int = 8) -> None:
        self._timeout, self._again, self._limit = timeout, again, limit
        self._changed = threading.Condition()
        # The times at which the calls that have not returned were started, by their number. Those
        # before `_wanted` are forgotten: their results are dropped.
        self._under_way: dict[int, float] = {}
        self._started = self._wanted = 0
        self._results: list[T] = []
        self._errors: list[BaseException] = []

    def get(self, function: Callable[[], T]) -> T:
        """Return the result of a call that is under way, or of a new call of `function`.

        :raises TimeoutError: it has not returned yet, or too many calls hang already. An error of
            the call itself is raised if it comes in time.
        """
        with self._changed:
            self._errors.clear()  # of calls that ended after their callers had left
            if not self._results and self._due():
                self._start(function)
            ended = self._changed.wait_for(lambda: self._results or self._errors, self._timeout)
            if self._results:
                result = self._results[0]
                self._drop()
                return result
            if ended:
                raise self._errors.pop()
        raise TimeoutError(f"no answer within {self._timeout:g} s; the call goes on")

    def forget(self) -> None:
        """Drop the results of all calls that are under way."""
        with self._changed:
            self._drop()

    def _drop(self) -> None:
        self._wanted = self._started
        self._results.clear()

    def _due(self) -> bool:
        """Return whether a new call must be started."""
        wanted = [began for number, began in self._under_way.items() if number >= self._wanted]
        if wanted and time.monotonic() - max(wanted) < self._again:
            return False
        if len(self._under_way) < self._limit:
            return True
        if wanted:
            return False
        raise TimeoutError(f"{len(self._under_way)} earlier calls have not returned yet")

    def _start(self, function: Callable[[], T]) -> None:
        number = self._started
        work = threading.Thread(
            target=self._work, args=(number, function), name="late-call", daemon=True
        )
        work.start()
        # Only now: a thread that cannot be started is not under way. It waits for the lock.
        self._started += 1
        self._under_way[number] = time.monotonic()

    def _work(self, number: int, function: Callable[[], T]) -> None:
        try:
            result = function()
        except BaseException as raised:  # raised in the caller's thread
            error = raised
            self._end(number, lambda: self._errors.append(error))
        else:
            self._end(number, lambda: self._results.append(result))

    def _end(self, number: int, keep: Callable[[], None]) -> None:
        with self._changed:
            del self._under_way[number]
            if number >= self._wanted:
                keep()
                self._changed.notify_all()
