"""Background: repeats calls in a thread during a step that takes long."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from itertools import count
from types import TracebackType

from rtagent.errors import RtAgentError


class Background:
    """A context in which calls are repeated at an interval.

    The thread ends with the context, with an error that is not retriable, or after `limit` seconds.
    Without a limit, it goes on as long as the context: the work there is not finished.
    """

    def __init__(
        self,
        name: str,
        calls: Sequence[Callable[[], object]],
        interval: float,
        limit: float | None = None,
    ) -> None:
        """:param calls: each is bounded in time. An error that is retriable is ignored, because the
        next turn repeats the call.
        """
        self._calls, self._interval = calls, interval
        self._turns = None if limit is None else max(1, int(limit / interval))
        self._stop = threading.Event()
        self._error: RtAgentError | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def check(self) -> None:
        """Raise the error that ended the calls, if one did."""
        if self._error is not None:
            raise self._error

    def __enter__(self) -> Background:
        if self._calls:
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()  # not joined: a call in the thread may take as long as its time-out

    def _run(self) -> None:
        for _ in count() if self._turns is None else range(self._turns):
            if self._stop.wait(self._interval):
                return
            for call in self._calls:
                try:
                    call()
                except RtAgentError as error:
                    if not error.retriable:
                        self._error = error
                        return
