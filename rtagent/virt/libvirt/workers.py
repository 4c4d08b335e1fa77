"""Threads for calls that may hang, so that a hanging call fails one item and does not block the
caller.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

K = TypeVar("K")
T = TypeVar("T")


class Workers:
    """Runs each batch of calls in a thread and abandons a thread that hangs.

    A call in C cannot be interrupted. Its thread stays until the call returns, and is counted until
    then.

    :param timeout: seconds for one call.
    :param limit: how many threads may hang at a time; further calls fail until one returns.
    """

    def __init__(self, timeout: float, limit: int = 8) -> None:
        self.timeout, self._limit = timeout, limit
        self._lock = threading.Lock()
        self._left: list[_Run[Any, Any]] = []

    @property
    def stuck(self) -> int:
        """Number of threads that hang now."""
        with self._lock:
            self._left = [run for run in self._left if not run.ended.is_set()]
            return len(self._left)

    def settle(self, timeout: float) -> bool:
        """Wait until the calls that hang now have returned. Return whether they have in time.

        :param timeout: seconds.
        """
        deadline = time.monotonic() + timeout
        with self._lock:
            hanging = list(self._left)
        return all(run.ended.wait(max(0.0, deadline - time.monotonic())) for run in hanging)

    def call(self, function: Callable[[], T]) -> T:
        """Return the result of one call, or raise its error.

        :raises TimeoutError: the call hangs, or too many hang already.
        """

        def hung(_: None) -> T:
            raise TimeoutError(f"no answer within {self.timeout:g} s")

        return self.each(lambda _: function(), [None], hung)[0]

    def each(
        self, function: Callable[[K], T], items: Sequence[K], hung: Callable[[K], T]
    ) -> list[T]:
        """Return the result for each item, in order; `hung` supplies it for a call that hangs.

        The first error of `function` or `hung` ends the batch and is raised here.

        :raises TimeoutError: too many calls hang already.
        """
        results: list[T] = []
        while len(results) < len(items):
            run = self._start(function, items[len(results) :])
            left = run.watch(self.timeout)
            results += run.results
            if run.error is not None:
                raise run.error
            if left:
                with self._lock:
                    self._left.append(run)
                results.append(hung(items[len(results)]))
        return results

    def _start(self, function: Callable[[K], T], items: Sequence[K]) -> _Run[K, T]:
        stuck = self.stuck
        if stuck >= self._limit:
            raise TimeoutError(f"{stuck} earlier calls have not returned yet")
        run = _Run(function, items)
        threading.Thread(target=run.work, name="bounded-call", daemon=True).start()
        return run


class _Run(Generic[K, T]):
    """One thread that processes a batch, supervised by its caller."""

    def __init__(self, function: Callable[[K], T], items: Sequence[K]) -> None:
        self._function, self._items = function, items
        self._lock = threading.Lock()
        self._began = time.monotonic()
        self._left = False
        self.results: list[T] = []
        self.error: BaseException | None = None
        self.ended = threading.Event()

    def work(self) -> None:
        try:
            for item in self._items:
                if not self._keep(self._function(item)):
                    return
                time.sleep(0)  # let other threads run: claims have priority over audits
        except BaseException as error:  # raised in the caller's thread
            self.error = error
        finally:
            self.ended.set()

    def watch(self, timeout: float) -> bool:
        """Wait for the end. Return True when the thread was abandoned with an item that hangs."""
        while not self.ended.wait(max(0.0, self._began + timeout - time.monotonic())):
            if self._leave(timeout):
                return True
        return False

    def _keep(self, result: T) -> bool:
        with self._lock:
            if not self._left:
                self.results.append(result)
                self._began = time.monotonic()
            return not self._left

    def _leave(self, timeout: float) -> bool:
        with self._lock:
            overdue = time.monotonic() - self._began >= timeout
            self._left = overdue and len(self.results) < len(self._items)
            return self._left
