"""The main thread: its event queue, and the repetition of the steps of a start."""

from __future__ import annotations

import queue
import signal
from collections.abc import Callable
from types import FrameType
from typing import TypeVar

from rtagent.errors import RtAgentError, Unavailable
from rtagent.ports import Clock, Reporter
from rtagent.service.loop import Backoff
from rtagent.service.systemd import Notifier

#: Reload the configuration.
RELOAD = "reload"
#: Finish the calls in flight, and end.
STOP = "stop"
#: The first good audit has ended.
READY = "ready"

SIGNALS = {signal.SIGTERM: STOP, signal.SIGINT: STOP, signal.SIGHUP: RELOAD}

#: One of the constants above, or an error that must end the process.
Event = str | RtAgentError

_T = TypeVar("_T")


class EventQueue:
    """A queue into which any thread and any signal handler may put events."""

    def __init__(self) -> None:
        # Unlike other queues, a SimpleQueue allows a signal handler to add an event while the
        # handler interrupts the queue's reader.
        self._queue: queue.SimpleQueue[Event] = queue.SimpleQueue()

    def catch_signals(self) -> None:
        """Put signals into the queue from now on. Only the main thread may call it."""
        for number in SIGNALS:
            signal.signal(number, self._signalled)

    def put(self, event: Event) -> None:
        """Append an event."""
        self._queue.put(event)

    def get(self, timeout: float) -> Event | None:
        """Return the oldest event, or None if there was none within `timeout` seconds."""
        try:
            return self._queue.get(timeout=timeout)
        except queue.Empty:
            return None

    def _signalled(self, number: int, _frame: FrameType | None) -> None:
        self._queue.put(SIGNALS[signal.Signals(number)])


class Stopped(Exception):
    """A signal requested a stop before the start was complete."""


class Startup:
    """Repeats the steps of a start that may have to wait. A signal ends the waiting.

    systemd's status line and the log name the missing part.
    """

    def __init__(
        self, events: EventQueue, notifier: Notifier, clock: Clock, reporter: Reporter
    ) -> None:
        self._events, self._notifier = events, notifier
        self._clock, self._reporter = clock, reporter.named(__name__)

    def wait_for(self, what: str, attempt: Callable[[], _T]) -> _T:
        """Return the attempt's result; repeat it with back-off while it raises `Unavailable`.

        :param what: the missing part, for the status line.
        :raises Stopped: a signal requested a stop.
        """
        backoff = Backoff()
        while True:
            try:
                return attempt()
            except Unavailable as error:
                self._notifier.status(f"waiting for {what}: {error.message}")
                self._reporter.log("warning", f"waiting for {what}: {error.message}")
            self._pause(backoff.pause())

    def _pause(self, seconds: float) -> None:
        ends = self._clock.monotonic() + seconds
        while (left := ends - self._clock.monotonic()) > 0:
            event = self._events.get(left)
            if event == STOP:
                raise Stopped
            if isinstance(event, RtAgentError):
                raise event
