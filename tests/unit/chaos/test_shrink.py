"""A plan that violates is shrunk to a smaller one that was seen to violate, too."""

import pytest

from tests.chaos.run import Plan
from tests.chaos.shrink import TRIES, repeated, shrink

PLAN = Plan(seed=1, seconds=600, faults=tuple("abcdefgh"))


@pytest.mark.parametrize("needed", ["", "a", "h", "ah", "bdg"])
def test_only_the_faults_that_are_needed_stay(needed: str):
    found = shrink(PLAN, lambda plan: set(needed) <= set(plan.faults or ()))
    assert "".join(found.faults or ()) == needed


def test_the_run_becomes_shorter_and_has_fewer_callers():
    found = shrink(PLAN, lambda plan: plan.seconds > 100 and plan.callers >= 3)
    assert (found.seconds, found.callers, found.faults) == (150, 4, ())


def test_what_is_not_violated_again_stays_as_it_was():
    assert shrink(PLAN, lambda _: False) == PLAN


class Trials:
    """Runs that violate from the second one on, if a fault occurs. :ivar made: their plans."""

    def __init__(self, fault: str) -> None:
        self.made: list[Plan] = []
        self._fault = fault

    def run(self, plan: Plan) -> list[str]:
        again = plan in self.made
        self.made.append(plan)
        if self._fault not in (plan.faults or ()):
            return ["another promise"]
        return ["P1", "another promise"] if again else []


def test_a_failing_run_is_shrunk_to_what_violates_the_same_promise():
    trials = Trials("d")
    found = shrink(PLAN, repeated(trials.run, {"P1"}))
    assert (found.faults, found.callers, found.seconds) == (("d",), 1, 18.75)
    assert max(trials.made.count(plan) for plan in trials.made) == TRIES


def test_a_plan_names_its_command():
    assert PLAN.command == (
        "tools/chaos --minutes 10 --seed 1 --callers 8 --hosts 3 --faults a,b,c,d,e,f,g,h"
    )
