"""The main thread: its event queue, the repetition of the steps of a start, and the description of
the process for SIGUSR1.
"""

import queue
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterable
from types import FrameType
from typing import TypeVar

from rtagent import errors
from rtagent.model.health import Check
from rtagent.ports import Clock, Reporter
from rtagent.service.loop import Backoff
from rtagent.service.systemd import Notifier


def log_state(reporter: Reporter, doing: str, checks: Iterable[Check] = ()) -> None:
    """Log what the process does, the health of its parts, and the position of each thread.

    :param doing: what it does, in one sentence.
    """
    reporter.log("info", f"state: {doing}")
    for check in checks:
        why = f": {check.output}" if check.output else ""
        reporter.log("info", f"state: health of {check.part} is {check.status}{why}")
    frames = sys._current_frames()
    for thread in threading.enumerate():
        frame = frames.get(thread.ident or 0)
        if frame is None:  # it has ended meanwhile
            continue
        stack = reversed(traceback.extract_stack(frame))
        where = ", ".join(f"{_short(at.filename)}:{at.lineno} {at.name}" for at in stack)
        reporter.log("info", f"state: thread {thread.name} is in {where}")


def _short(path: str) -> str:
    """Return the last two parts of a path: a line of the log has a limit."""
    return "/".join(path.split("/")[-2:])


#: Reload the configuration.
RELOAD = "reload"
#: Finish the calls in flight, and end.
STOP = "stop"
#: Log the state of the process.
DESCRIBE = "describe"
#: The first good audit has ended.
READY = "ready"

SIGNALS = {
    signal.SIGTERM: STOP,
    signal.SIGINT: STOP,
    signal.SIGHUP: RELOAD,
    signal.SIGUSR1: DESCRIBE,
}

#: Signals that have no effect here, but by default would end the process. Those that report a
#: defect (SIGSEGV, SIGABRT) or request a core dump (SIGQUIT) keep their effect.
IGNORED = (
    signal.SIGUSR2,  # until the state report has its handler
    signal.SIGALRM,
    signal.SIGVTALRM,
    signal.SIGPROF,
    signal.SIGIO,
    signal.SIGPIPE,
    signal.SIGPWR,
    signal.SIGSTKFLT,
    signal.SIGXCPU,
    signal.SIGXFSZ,
    *range(signal.SIGRTMIN, signal.SIGRTMAX + 1),
)

#: One of the constants above, or an error that must end the process.
Event = str | errors.RtAgentError

#: The order in which events are taken: a stop first, then an error.
_ORDER = (STOP, errors.RtAgentError, READY, DESCRIBE, RELOAD)

#: The pause after the first failure of a database is so many times as long as the attempt; twice as
#: many times after each further one, up to the second number. If the database is too slow for all
#: agents that start at the same moment, it so has to answer fewer and fewer of them at a time.
SPREAD, WIDEST = 4, 32
#: Seconds of the longest pause.
LONGEST = 120.0

_T = TypeVar("_T")


class EventQueue:
    """A queue into which any thread and any signal handler may put events.

    It contains an event once, however often it was put, and returns the most urgent one first.
    Thus, many requests to reload cause one reload, and do not delay a stop.
    """

    def __init__(self) -> None:
        self._pending: dict[Event, None] = {}
        # Unlike other queues, a SimpleQueue allows a signal handler to add an entry while the
        # handler interrupts the queue's reader.
        self._wakeups: queue.SimpleQueue[None] = queue.SimpleQueue()

    def catch_signals(self) -> None:
        """Put signals into the queue from now on. Only the main thread may call it."""
        for number in SIGNALS:
            signal.signal(number, self._signalled)
        for number in IGNORED:
            signal.signal(number, _ignore)

    def put(self, event: Event) -> None:
        """Add an event, if it is not in the queue."""
        if event not in self._pending:
            self._pending[event] = None  # before the wake-up, which promises an event
            self._wakeups.put(None)

    def get(self, timeout: float) -> Event | None:
        """Return the most urgent event, or None if there was none within `timeout` seconds."""
        try:
            self._wakeups.get(timeout=timeout)
        except queue.Empty:
            return None
        # A handler may add an event meanwhile, but only this reader removes one.
        event = min(list(self._pending), key=_urgency, default=None)
        if event is not None:
            del self._pending[event]
        return event

    def _signalled(self, number: int, _frame: FrameType | None) -> None:
        self.put(SIGNALS[signal.Signals(number)])


def _ignore(_number: int, _frame: FrameType | None) -> None:
    """Do nothing. Unlike SIG_IGN, a handler is not inherited by programs that libvirt starts."""


def _urgency(event: Event) -> int:
    return _ORDER.index(errors.RtAgentError if isinstance(event, errors.RtAgentError) else event)


class Stopped(Exception):
    """A signal requested a stop before the start was complete."""


class _Pauses:
    """The pauses between the attempts of one step."""

    def __init__(self) -> None:
        self._backoff, self._spread = Backoff(), SPREAD

    def after(self, error: errors.Unavailable, attempted: float) -> float:
        """Return the next pause. :param attempted: the seconds that the attempt took."""
        if not isinstance(error, errors.StoreUnavailable):
            return self._backoff.pause()
        at_least = min(self._spread * attempted, LONGEST)
        self._spread = min(2 * self._spread, WIDEST)
        return self._backoff.pause(at_least)


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

        A request to reload the configuration waits until the start is complete.

        :param what: the missing part, for the status line.
        :raises Stopped: a signal requested a stop.
        :raises StoreDamaged: waiting does not help.
        """
        pauses = _Pauses()
        while True:
            self._pause(0.0, f"waiting for {what}")  # a stop is not delayed by an attempt
            began = self._clock.monotonic()
            try:
                return attempt()
            except errors.StoreDamaged:
                raise
            except errors.Unavailable as error:
                pause = pauses.after(error, self._clock.monotonic() - began)
                missing = "the other agent" if isinstance(error, errors.TakeoverPending) else what
                waiting = f"waiting for {missing}: {error.message}"
                self._notifier.status(waiting)
                self._reporter.log("warning", waiting)
            self._pause(pause, waiting)

    def _pause(self, seconds: float, doing: str) -> None:
        """React to events for so many seconds; with 0, only to the most urgent one."""
        ends = self._clock.monotonic() + seconds
        later: set[Event] = set()
        while True:
            left = max(0.0, ends - self._clock.monotonic())
            event = self._events.get(left)
            if event == STOP:
                raise Stopped
            if isinstance(event, errors.RtAgentError):
                raise event
            if event == DESCRIBE:
                log_state(self._reporter, doing)
            elif event is not None:
                later.add(event)
            if not left:
                break
        for event in later:
            self._events.put(event)
