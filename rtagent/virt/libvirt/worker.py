"""Calls that may hang, made where a hang costs one item and no more."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

K = TypeVar("K")
T = TypeVar("T")


class Workers:
    """Runs each batch of calls in a thread of its own and leaves a thread behind that hangs.

    A call in C cannot be interrupted: its thread stays until the call returns, and is counted.

    :param timeout: seconds for one call.
    :param limit: how many may hang at a time; beyond that, nothing is attempted until one returns.
    """

    def __init__(self, timeout: float, limit: int = 8) -> None:
        self._timeout, self._limit = timeout, limit
        self._lock = threading.Lock()
        self._left: list[_Run[Any, Any]] = []

    @property
    def stuck(self) -> int:
        """How many threads hang now."""
        with self._lock:
            self._left = [run for run in self._left if not run.ended.is_set()]
            return len(self._left)

    def call(self, function: Callable[[], T]) -> T:
        """The result of one call, or its error.

        :raises TimeoutError: it hangs, or too many do already.
        """

        def hung(_: None) -> T:
            raise TimeoutError(f"no answer within {self._timeout:g} s")

        return self.each(lambda _: function(), [None], hung)[0]

    def each(
        self, function: Callable[[K], T], items: Sequence[K], hung: Callable[[K], T]
    ) -> list[T]:
        """The result for each item, in order; `hung` stands in for a call that hangs.

        The first error that `function` or `hung` raises ends the batch and is raised here.

        :raises TimeoutError: too many calls hang already.
        """
        results: list[T] = []
        while len(results) < len(items):
            run = self._start(function, items[len(results) :])
            left = run.watch(self._timeout)
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
    """A thread's way through a batch, and its caller's eye on it."""

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
                time.sleep(0)  # other threads matter more than a batch: give way after each item
        except BaseException as error:  # it is the caller's: raised there
            self.error = error
        finally:
            self.ended.set()

    def watch(self, timeout: float) -> bool:
        """Wait for the end; True when the thread was left with an item that hangs."""
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
