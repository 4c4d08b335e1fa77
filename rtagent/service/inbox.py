"""Inbox: what the main thread is told: signals, and errors that must end the process."""

from __future__ import annotations

import queue
import signal
from types import FrameType

from rtagent.errors import RtAgentError

#: Reload the configuration.
RELOAD = "reload"
#: Finish what is in flight, and end.
STOP = "stop"
#: The first good audit is done.
OPENED = "opened"

SIGNALS = {signal.SIGTERM: STOP, signal.SIGINT: STOP, signal.SIGHUP: RELOAD}

News = str | RtAgentError


class Inbox:
    """Any thread and any signal handler may put something in."""

    def __init__(self) -> None:
        # A SimpleQueue may be written to from a signal handler that interrupted its own reader.
        self._queue: queue.SimpleQueue[News] = queue.SimpleQueue()

    def attend_signals(self) -> None:
        """Have signals put in; for the main thread only."""
        for number in SIGNALS:
            signal.signal(number, self._signalled)

    def put(self, news: News) -> None:
        self._queue.put(news)

    def get(self, timeout: float) -> News | None:
        """The oldest, or None when there is none in that many seconds."""
        try:
            return self._queue.get(timeout=timeout)
        except queue.Empty:
            return None

    def _signalled(self, number: int, _frame: FrameType | None) -> None:
        self._queue.put(SIGNALS[signal.Signals(number)])
