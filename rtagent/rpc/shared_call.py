"""SharedCall: lets many callers share one run of a function that takes long."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

T = TypeVar("T")


class SharedCall(Generic[T]):
    """Runs a function for its callers, one run at a time. Thread-safe.

    A caller gets the result of a run that begins after its call, because an earlier run may have
    observed the host before a change by the caller. All callers that call during a run share the
    next one, so any number of concurrent calls cause at most two runs.
    """

    def __init__(self, name: str, function: Callable[[], T]) -> None:
        """:param name: of the thread that runs the function."""
        self._name, self._function = name, function
        self._lock = threading.Lock()
        self._next: Future[T] | None = None
        self._running = False

    def result(self, timeout: float) -> T:
        """Return the result of the next run, or raise its error.

        :param timeout: seconds. The run goes on after it.
        :raises TimeoutError: the run has not ended in time.
        """
        with self._lock:
            if self._next is None:
                self._next = Future()
            mine = self._next
            if not self._running:
                # Not in the caller's thread: the caller waits for a bounded time only.
                threading.Thread(target=self._run, name=self._name, daemon=True).start()
                self._running = True  # only now: a thread that cannot be started runs nothing
        return mine.result(timeout)

    def _run(self) -> None:
        """Run the function until no caller waits for another run."""
        while True:
            with self._lock:
                run, self._next = self._next, None
                self._running = run is not None
            if run is None:
                return
            try:
                run.set_result(self._function())
            except BaseException as error:  # raised to the callers
                run.set_exception(error)
