"""A life goes on with definite outcomes only."""

import random

import pytest

from tests.chaos.callers.running_life import RunningLife
from tests.chaos.callers.step import Life, Outcome, Step

OK, REFUSED, UNKNOWN = Outcome(state="ok"), Outcome(state="fail"), Outcome(state="info")
CREATE = Step(host="h", method="instance_claim", operation_id="a", creates=True)
RENEW = Step(host="h", method="renew_claim", operation_id="b")
READ = Step(host="h", method="ping")
ONCE = Step(host="h", method="drain_node", operation_id="c", once=True)


class Lived:
    """Makes one step, and keeps the outcome that the life got."""

    def __init__(self, step: Step) -> None:
        self.got: list[str] = []
        self.running = RunningLife(self._life(step), random.Random(1))

    def _life(self, step: Step) -> Life:
        outcome = yield step
        self.got.append(outcome.state)


@pytest.mark.parametrize("step", [CREATE, RENEW, READ], ids=["create", "renew", "read"])
@pytest.mark.parametrize("outcome", [OK, REFUSED], ids=["ok", "fail"])
def test_a_definite_outcome_ends_a_step(step: Step, outcome: Outcome):
    life = Lived(step)
    life.running.take(outcome)
    assert life.got == [outcome.state]
    assert life.running.over


def test_a_step_with_an_unknown_outcome_is_repeated_under_its_operation_id():
    life = Lived(RENEW)
    life.running.take(UNKNOWN, give_up=True)
    assert (life.running.pending, life.running.doubtful) == (RENEW, True)
    life.running.take(OK)
    assert life.got == ["ok"]


@pytest.mark.parametrize("step", [READ, ONCE], ids=["read", "once"])
def test_a_step_that_is_not_repeated_is_over_without_an_answer(step: Step):
    life = Lived(step)
    life.running.take(UNKNOWN)
    assert life.got == ["fail"]
    assert not life.running.doubtful


def test_a_refusal_after_an_unanswered_create_is_aborted():
    """The first attempt may still arrive, and be granted."""
    life = Lived(CREATE)
    life.running.take(UNKNOWN)
    life.running.take(REFUSED)
    abort = life.running.pending
    assert abort is not None
    assert (abort.method, abort.arguments) == ("release_claim", {"claim_uuid": "a"})
    assert life.running.doubtful
    life.running.take(UNKNOWN)
    assert life.running.pending == abort
    life.running.take(OK)
    assert life.got == ["fail"]


def test_an_unanswered_create_can_be_given_up():
    life = Lived(CREATE)
    life.running.take(UNKNOWN, give_up=True)
    assert life.running.pending is not None
    assert life.running.pending.method == "release_claim"
    life.running.take(OK)
    assert life.got == ["fail"]
    assert life.running.over
