"""Loop: a thread that takes a turn, and rests until the next is due or it is woken."""

from __future__ import annotations

import math
import threading
import traceback
from collections.abc import Callable

from rtagent.model.base import Value
from rtagent.ports import Clock, Reporter
from rtagent.service.backoff import Backoff


class Rest(Value, frozen=True, kw_only=True):
    """Seconds between two turns.

    :ivar at_least: even when woken. :ivar at_most: when nobody wakes it; may be infinite.
    """

    at_least: float = 0.0
    at_most: float = math.inf


def every(seconds: float) -> Rest:
    """No sooner and no later."""
    return Rest(at_least=seconds, at_most=seconds)


class Loop:
    """Thread-safe. A turn that raises is reported, and repeated with back-off."""

    def __init__(
        self, name: str, turn: Callable[[], Rest], clock: Clock, reporter: Reporter
    ) -> None:
        self.name = name
        self._turn, self._clock, self._reporter = turn, clock, reporter
        self._backoff = Backoff()
        self._changed = threading.Condition()
        self._stopping = self._woken = self._failed = False
        # When the turn that runs has begun, or when the next one is due.
        self._since = clock.monotonic()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._since = self._clock.monotonic()
        self._thread.start()

    def wake(self) -> None:
        """Take the next turn as soon as its rest allows."""
        with self._changed:
            self._woken = True
            self._changed.notify_all()

    def ask_to_stop(self) -> None:
        """Take no further turn."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()

    def stop(self, timeout: float) -> bool:
        """Take no further turn; whether the last one ended in that time."""
        self.ask_to_stop()
        if self._thread.is_alive():
            self._thread.join(timeout)
        return not self._thread.is_alive()

    @property
    def overdue(self) -> float:
        """Seconds for which the turn that runs has lasted, or by which the next one is late."""
        return max(0.0, self._clock.monotonic() - self._since)

    def _run(self) -> None:
        while not self._stopping:
            self._since = self._clock.monotonic()
            with self._changed:
                self._woken = False
            self._wait(self._take_turn())

    def _take_turn(self) -> Rest:
        try:
            rest = self._turn()
        except Exception as error:  # the outermost loop of a thread
            pause = self._backoff.pause()
            self._failed = True
            self._reporter.health(f"{self.name}-thread", "fail", repr(error))
            self._reporter.said("error", f"{self.name}: {traceback.format_exc()}")
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
