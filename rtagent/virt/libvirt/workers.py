"""Threads for calls that may hang, so that a hanging call fails one item and does not block the
caller.

`CallWorkers` run batches of calls, `BoundedCalls` make the same call for many items, and the late
result of a `LateCall` is used.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

from rtagent.model.observation import Problem

#: Seconds of work after which a batch lets other threads run: claims have priority over audits. A
#: rest takes about as long as several short calls.
WORK = 0.001

K = TypeVar("K")
T = TypeVar("T")


class CallWorkers:
    """Runs each batch of calls in a thread and abandons a thread that hangs.

    A call in C cannot be interrupted. Its thread stays until the call returns, and is counted until
    then.

    :param timeout: seconds for one call.
    :param limit: how many threads may hang at a time; further calls fail until one returns.
    """

    def __init__(self, timeout: float, limit: int = 8) -> None:
        self.timeout, self._limit = timeout, limit
        self._lock = threading.Lock()
        self._runs: list[_Run[Any, Any]] = []

    @property
    def stuck(self) -> int:
        """Number of threads that hang now."""
        with self._lock:
            self._runs = [run for run in self._runs if not (run.left and run.ended.is_set())]
            return sum(run.left for run in self._runs)

    def settle(self, timeout: float) -> bool:
        """Wait until the calls that are under way have returned, also those that hang. Return
        whether they have in time.

        :param timeout: seconds.
        """
        deadline = time.monotonic() + timeout
        with self._lock:
            runs = list(self._runs)
        return all(run.ended.wait(max(0.0, deadline - time.monotonic())) for run in runs)

    def call(self, function: Callable[[], T]) -> T:
        """Return the result of one call, or raise its error.

        :raises TimeoutError: the call hangs, or too many hang already.
        """

        def hung(_: None) -> T:
            raise TimeoutError(f"no answer within {self.timeout:g} s")

        return self.each(lambda _: function(), [None], hung)[0]

    def long(self, function: Callable[[], T]) -> T:
        """Return the result of one call that may take any time, or raise its error.

        :raises TimeoutError: too many calls hang already.
        """
        run = self._start(lambda _: function(), [None])
        run.ended.wait()
        with self._lock:
            self._runs.remove(run)
        if run.error is not None:
            raise run.error
        return run.results[0]

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
            if not left:  # its items may keep a connection open
                with self._lock:
                    self._runs.remove(run)
            results += run.results
            if run.error is not None:
                raise run.error
            if left:
                results.append(hung(items[len(results)]))
        return results

    def _start(self, function: Callable[[K], T], items: Sequence[K]) -> _Run[K, T]:
        stuck = self.stuck
        if stuck >= self._limit:
            raise TimeoutError(f"{stuck} earlier calls have not returned yet")
        run = _Run(function, items)
        with self._lock:  # so that `settle` knows of the call before it begins
            threading.Thread(target=run.work, name="bounded-call", daemon=True).start()
            self._runs.append(run)
        return run


class _Run(Generic[K, T]):
    """One thread that processes a batch, supervised by its caller.

    :ivar left: the caller has abandoned it.
    """

    def __init__(self, function: Callable[[K], T], items: Sequence[K]) -> None:
        self._function, self._items = function, items
        self._lock = threading.Lock()
        self._began = time.monotonic()
        self.left = False
        self.results: list[T] = []
        self.error: BaseException | None = None
        self.ended = threading.Event()

    def work(self) -> None:
        rested = self._began
        try:
            for item in self._items:
                if not self._keep(self._function(item)):
                    return
                if self._began - rested >= WORK:
                    time.sleep(0)
                    rested = time.monotonic()
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
            if not self.left:
                self.results.append(result)
                self._began = time.monotonic()
            return not self.left

    def _leave(self, timeout: float) -> bool:
        with self._lock:
            overdue = time.monotonic() - self._began >= timeout
            self.left = overdue and len(self.results) < len(self._items)
            return self.left


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


class BoundedCalls:
    """Calls of one type through one session of libvirt.

    An item whose call hangs is skipped until that call returns, so that one domain never blocks
    more than one thread.

    :param ping: a call that hangs if libvirt as a whole hangs.
    :param what: the type of item, as a `Problem` names it (``domain``).
    """

    def __init__(self, ping: Callable[[], object], workers: CallWorkers, what: str) -> None:
        self._ping, self._workers, self._what = ping, workers, what
        self._under_way: set[str] = set()

    def each(
        self, call: Callable[[K], T], items: Mapping[str, K]
    ) -> Iterator[tuple[str, T | Problem]]:
        """Yield the key of each item with its result, or with a `Problem` when its call hangs.

        :param items: by a unique key: a domain's uuid or a device's name.
        :raises TimeoutError: libvirt as a whole hangs.
        """

        def bounded(key: str) -> T | Problem:
            self._under_way.add(key)
            try:
                return call(items[key])
            finally:
                self._under_way.discard(key)

        def hung(key: str) -> T | Problem:
            # Raises TimeoutError if libvirt as a whole hangs, not only this item.
            self._workers.call(self._ping)
            return self._problem(key)

        ready: list[str] = []
        for key in items:
            if key in self._under_way:
                yield key, self._problem(key)
            else:
                ready.append(key)
        yield from zip(ready, self._workers.each(bounded, ready, hung), strict=True)

    def _problem(self, key: str) -> Problem:
        name = f"{self._what} {key}".strip()
        return Problem(item=name, message="libvirt has not answered yet")
