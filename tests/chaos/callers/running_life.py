"""RunningLife: a life, the call that it waits for, and what may still arrive of it."""

from __future__ import annotations

import random

from tests.chaos.callers.flavors import new_uuid
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
