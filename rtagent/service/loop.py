"""Loop: a thread that repeats turns, with pauses that a wake-up shortens."""

import math
import random
import threading
import traceback
from collections.abc import Callable, Sequence

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
        self, first: float = FIRST, last: float = LAST, jitter: Callable[[], float] = random.random
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


class Turn:
    """A work that a `Loop` repeats. Thread-safe.

    :ivar since: when the turn has begun, or when the next one is due.
    """

    def __init__(
        self, name: str, run: Callable[[], Rest], clock: Clock, changed: threading.Condition
    ) -> None:
        """:param changed: is notified of a wake-up."""
        self.name, self.run = name, run
        self.backoff, self.failed = Backoff(), False
        self.woken, self.since = False, clock.monotonic()
        self._clock, self._changed, self._not_before = clock, changed, self.since

    def wake(self) -> None:
        """Run the next turn as soon as the current rest allows."""
        with self._changed:
            self.woken = True
            self._changed.notify_all()

    def rest(self, rest: Rest) -> None:
        """Plan the next turn."""
        now = self._clock.monotonic()
        self._not_before, self.since = now + rest.at_least, now + rest.at_most

    @property
    def due(self) -> float:
        """When the next turn is to run."""
        return self._not_before if self.woken else self.since

    @property
    def overdue(self) -> float:
        """The seconds since the start of the current turn, or since the time at which the next one
        was due.
        """
        return max(0.0, self._clock.monotonic() - self.since)


class Loop:
    """A thread that repeats turns. Of several that are due, the one that was added first is the
    most urgent and runs first. One that is due again at once runs after the others that are due, so
    that work without end does not keep them for ever. Thread-safe.

    A turn that raises is reported as a failure of the part ``<name>-thread``, and is repeated with
    back-off. The others go on.
    """

    def __init__(
        self, name: str, turn: Callable[[], Rest] | None, clock: Clock, reporter: Reporter
    ) -> None:
        """:param turn: None: turns are added later, before the start."""
        self.name = name
        self._clock, self._reporter = clock, reporter.named(__name__)
        self._changed = threading.Condition()
        self._stopping = False
        self._turns: list[Turn] = []
        self._running = 0  # the index of the running turn
        self._served: set[int] = set()  # that have run since no other turn was due
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        if turn is not None:
            self.add(name, turn)

    def add(self, name: str, run: Callable[[], Rest]) -> Turn:
        """Add a turn that is less urgent than those before. Its first run is due at the start."""
        self._turns.append(Turn(name, run, self._clock, self._changed))
        return self._turns[-1]

    @property
    def turns(self) -> Sequence[Turn]:
        """The turns, the most urgent one first."""
        return tuple(self._turns)

    def start(self) -> None:
        """Run the first turns at once."""
        for turn in self._turns:
            turn.rest(Rest(at_most=0.0))
        self._thread.start()

    def wake(self) -> None:
        """Run each turn as soon as its current rest allows."""
        for turn in self._turns:
            turn.wake()

    def waker(self, name: str) -> Callable[[], None]:
        """Return what wakes the turn of this name. The turn may be added later, before the start:
        what it needs to be made may have to wake it.
        """

        def wake() -> None:
            for turn in self._turns:
                if turn.name == name:
                    turn.wake()

        return wake

    def give_way(self) -> None:
        """Run once the turns that are due and more urgent than the running one, which calls this
        between two of its steps.
        """
        running = self._running
        for index in range(running):
            if not self._stopping and self._turns[index].due <= self._clock.monotonic():
                self._run_turn(index)
        self._running = running

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

    def _run(self) -> None:
        while (index := self._wait()) is not None:
            self._run_turn(index)

    def _most_urgent(self) -> int | None:
        """Return the first turn that is due, of those that have not had their run."""
        now = self._clock.monotonic()
        due = [index for index, turn in enumerate(self._turns) if turn.due <= now]
        if self._served.issuperset(due):
            self._served.clear()
        return next((index for index in due if index not in self._served), None)

    def _wait(self) -> int | None:
        """Wait until a turn is due, and return its index; None: the loop stops."""
        with self._changed:
            while not self._stopping:
                if (index := self._most_urgent()) is not None:
                    return index
                first = min(range(len(self._turns)), key=lambda n: self._turns[n].due)
                left = self._turns[first].due - self._clock.monotonic()
                if not self._changed.wait(min(left, threading.TIMEOUT_MAX)):
                    return first
        return None

    def _run_turn(self, index: int) -> None:
        turn, self._running = self._turns[index], index
        self._served.add(index)
        turn.since, turn.woken = self._clock.monotonic(), False
        try:
            rest = turn.run()
        except Exception as error:  # the outermost loop of a thread
            rest, turn.failed = every(turn.backoff.pause()), True
            self._reporter.health(f"{turn.name}-thread", "fail", repr(error))
            self._reporter.log("error", f"{turn.name}: {error!r} {_where(error)}")
        else:
            if turn.failed:
                turn.failed = False
                turn.backoff.reset()
                self._reporter.health(f"{turn.name}-thread", "pass")
        turn.rest(rest)


def _where(error: Exception) -> str:
    """Return the places that an error has passed, the origin first, on one line of the log."""
    frames = reversed(traceback.extract_tb(error.__traceback__))
    return " < ".join(f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames)
