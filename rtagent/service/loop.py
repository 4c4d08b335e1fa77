"""Loop: a thread that repeats a turn, with pauses that a wake-up shortens."""

from __future__ import annotations

import math
import random
import threading
import traceback
from collections.abc import Callable

from rtagent.model.base import Value
from rtagent.ports import Clock, Reporter

#: Seconds of the first pause of a back-off. Each further pause is twice as long.
FIRST = 0.25
#: Seconds of the longest pause, which is also the longest delay until a recovery is noticed.
LAST = 10.0


class Backoff:
    """The pauses between the attempts of one thread, each twice as long as the one before.

    Each is shortened by up to a half, so that the agents of many hosts do not try again at the same
    moment.
    """

    def __init__(
        self,
        first: float = FIRST,
        last: float = LAST,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """:param jitter: returns 0 to 1; 1: the pause is not shortened."""
        self._first, self._last, self._jitter = first, last, jitter
        self._next = first

    def pause(self, at_least: float = 0.0) -> float:
        """Return the seconds to wait after one more failure.

        :param at_least: seconds of the pause before it is shortened, even if that is longer than
            the longest pause.
        """
        pause = max(self._next, at_least)
        self._next = min(pause * 2, self._last)
        return pause * (1 + self._jitter()) / 2

    def reset(self) -> None:
        """Start again with the first pause, after a success."""
        self._next = self._first


class Rest(Value, frozen=True, kw_only=True):
    """The pause between two turns, in seconds.

    :ivar at_least: the minimum, even if the loop is woken. :ivar at_most: the maximum; may be
        infinite.
    """

    at_least: float = 0.0
    at_most: float = math.inf


def every(seconds: float) -> Rest:
    """Return a rest that no wake-up shortens."""
    return Rest(at_least=seconds, at_most=seconds)


class Loop:
    """A thread of turns. Thread-safe.

    A turn that raises is reported as a failure of the part ``<name>-thread``, and is repeated with
    back-off.
    """

    def __init__(
        self, name: str, turn: Callable[[], Rest], clock: Clock, reporter: Reporter
    ) -> None:
        self.name = name
        self._turn, self._clock, self._reporter = turn, clock, reporter.named(__name__)
        self._backoff = Backoff()
        self._changed = threading.Condition()
        self._stopping = self._woken = self._failed = False
        # The time at which the current turn has begun, or at which the next one is due.
        self._since = clock.monotonic()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Run the first turn at once."""
        self._since = self._clock.monotonic()
        self._thread.start()

    def wake(self) -> None:
        """Run the next turn as soon as the current rest allows."""
        with self._changed:
            self._woken = True
            self._changed.notify_all()

    def ask_to_stop(self) -> None:
        """Run no further turn."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()

    def stop(self, timeout: float) -> bool:
        """Run no further turn. Return whether the last turn ended within `timeout` seconds."""
        self.ask_to_stop()
        if self._thread.is_alive():
            self._thread.join(timeout)
        return not self._thread.is_alive()

    @property
    def overdue(self) -> float:
        """The seconds since the start of the current turn, or since the time at which the next turn
        was due.
        """
        return max(0.0, self._clock.monotonic() - self._since)

    def _run(self) -> None:
        while not self._stopping:
            self._since = self._clock.monotonic()
            with self._changed:
                self._woken = False
            self._wait(self._run_turn())

    def _run_turn(self) -> Rest:
        try:
            rest = self._turn()
        except Exception as error:  # the outermost loop of a thread
            pause = self._backoff.pause()
            self._failed = True
            self._reporter.health(f"{self.name}-thread", "fail", repr(error))
            self._reporter.log("error", f"{self.name}: {error!r} {_where(error)}")
            return every(pause)
        if self._failed:
            self._failed = False
            self._backoff.reset()
            self._reporter.health(f"{self.name}-thread", "pass")
        return rest

    def _wait(self, rest: Rest) -> None:
        ended = self._clock.monotonic()
        with self._changed:
            self._since = ended + rest.at_most
            self._changed.wait_for(lambda: self._stopping, rest.at_least)
            left = max(0.0, rest.at_most - (self._clock.monotonic() - ended))
            self._changed.wait_for(
                lambda: self._stopping or self._woken, min(left, threading.TIMEOUT_MAX)
            )


def _where(error: Exception) -> str:
    """Return the places that an error has passed, the origin first, on one line of the log."""
    frames = reversed(traceback.extract_tb(error.__traceback__))
    return " < ".join(f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames)
