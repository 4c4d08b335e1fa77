"""Caller: one thread that goes through several lives at random."""

import random
import threading
import time
from collections.abc import Callable

from tests.chaos.callers.flavors import new_uuid
from tests.chaos.callers.recorder import Recorder
from tests.chaos.callers.step import Life, Outcome, Step


class RunningLife:
    """Goes through the steps of a life; a step whose outcome is unknown is made again, unless it
    is a read or is made once.

    A refusal is no outcome if an earlier attempt is unknown and would create a claim: then the
    claim is aborted, so that a late arrival of that attempt is refused.

    :ivar pending: the call to make next; None: the life is over.
    :ivar doubtful: an attempt of `pending` had no answer.
    """

    def __init__(self, life: Life, rng: random.Random) -> None:
        self._life, self._rng = life, rng
        self._aborted: Step | None = None
        self.doubtful = False
        self.pending: Step | None = next(life, None)

    @property
    def over(self) -> bool:
        return self.pending is None

    def take(self, outcome: Outcome, *, give_up: bool = False) -> None:
        """Go on after an outcome of the pending call.

        :param give_up: abort a doubtful call that creates a claim, in place of repeating it.
        """
        step = self.pending
        assert step is not None
        if outcome.state == "info" and (step.once or step.operation_id is None):
            outcome = Outcome(state="fail", error=outcome.error)
        if outcome.state == "info":
            self.doubtful = True
            if give_up and step.creates:
                self._abort(step)
        elif not outcome.ok and self.doubtful and step.creates:
            self._abort(step)
        else:
            self._next(outcome if self._aborted is None else Outcome(state="fail"))

    def close(self) -> None:
        """End the life where it is."""
        self._life.close()
        self.pending = None

    def _abort(self, step: Step) -> None:
        """End the claim that the call may have made, or may still make."""
        self._aborted = step
        self.pending = Step(
            host=step.host,
            method="release_claim",
            arguments={"claim_uuid": step.operation_id},
            operation_id=new_uuid(self._rng),
        )

    def _next(self, outcome: Outcome) -> None:
        self.doubtful, self._aborted = False, None
        try:
            self.pending = self._life.send(outcome)
        except StopIteration:
            self.pending = None


#: The most lives of one caller at once.
LIVES = 4
#: Seconds for each attempt of a call, drawn at random.
TIMEOUTS = (2.0, 4.0, 8.0)
#: The same for a call that was answered before.
REPEATED = 4.0
#: The same while nothing is at fault.
QUIET_TIMEOUT = 10.0
#: The mean of the seconds between two calls, by default.
PAUSE = 0.1


class Caller:
    """Makes one call after the other, from `start` to `end`, except while it is paused.

    :ivar name: the process of its calls. :ivar error: what ended the thread early.
    """

    def __init__(
        self,
        name: str,
        recorder: Recorder,
        rng: random.Random,
        new_life: Callable[[], Life],
        pause: float = PAUSE,
        patience: int = 1,
    ) -> None:
        """:param new_life: draws a life. :param pause: the mean seconds between two calls.
        :param patience: the limits of time are multiplied by it.
        """
        self.name = name
        self.error: Exception | None = None
        self._recorder, self._rng, self._new_life = recorder, rng, new_life
        self._pause, self._patience = pause, patience
        self._lives: list[RunningLife] = []
        #: Calls that were answered, which may be repeated.
        self._answered: list[Step] = []
        self._going, self._parked = threading.Event(), threading.Event()
        self._ending = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._going.set()
        self._thread.start()

    def pause(self) -> None:
        """Begin no new call. `wait_parked` waits for the end of the last one."""
        self._going.clear()

    def wait_parked(self, timeout: float) -> bool:
        """Wait until no call is under way. Return whether that is so in time."""
        return self._parked.wait(timeout)

    def resume(self) -> None:
        self._parked.clear()
        self._going.set()

    def end(self) -> None:
        """End the thread, after a `pause`."""
        self._ending = True
        self._going.set()
        self._thread.join(QUIET_TIMEOUT * self._patience)
        for life in self._lives:
            life.close()

    def settle(self, deadline: float) -> list[Step]:
        """Repeat each call whose outcome is unknown until it is known. Only while paused.

        :param deadline: monotonic. :return: the calls whose outcome is still unknown.
        """
        for life in self._lives:
            while life.doubtful and life.pending is not None and time.monotonic() < deadline:
                self._make(life, QUIET_TIMEOUT * self._patience, attempts=1)
                if life.doubtful:
                    time.sleep(0.2)
        return [life.pending for life in self._lives if life.doubtful and life.pending is not None]

    # -- the thread --------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._ending:
                if not self._going.is_set():
                    self._parked.set()
                    self._going.wait()
                    continue
                self._one()
                time.sleep(self._rng.expovariate(1 / self._pause))
        except Exception as error:
            self.error = error
        finally:
            self._parked.set()

    def _one(self) -> None:
        """Make one call: the next one of a life, or an earlier one again."""
        self._lives = [life for life in self._lives if not life.over]
        if self._answered and self._rng.random() < 0.05:
            again = self._rng.choice(self._answered)
            self._recorder.make(self.name, again, timeout=REPEATED * self._patience)
            return
        if len(self._lives) < LIVES and (not self._lives or self._rng.random() < 0.2):
            self._lives.append(RunningLife(self._new_life(), self._rng))
        life = self._rng.choice(self._lives)
        if not life.over:
            attempts = 3 if self._rng.random() < 0.2 else 1
            self._make(life, self._rng.choice(TIMEOUTS) * self._patience, attempts)

    def _make(self, life: RunningLife, timeout: float, attempts: int) -> None:
        step = life.pending
        assert step is not None
        outcome = self._recorder.make(self.name, step, timeout=timeout, attempts=attempts)
        if outcome.ok and step.operation_id is not None:
            self._answered = [*self._answered[-20:], step]
        life.take(outcome, give_up=self._rng.random() < 0.3)
