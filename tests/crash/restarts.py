"""Restarts: one agent process after the other, each killed at a point of a change's transaction."""

from collections.abc import Iterable

from tests.crash.changes import CHANGES, Change
from tests.crash.scenario import Scenario, noted

#: The points at which a transaction is durable; at all others it is not.
DURABLE = frozenset({"enroll.after", "commit.after"})

#: A point of a transaction, and the name of a change of `CHANGES`.
Cut = tuple[str, str]


def cut_off_each(scenario: Scenario, cuts: Iterable[Cut]) -> None:
    """Kill the agent at a point of each change, and repeat the change with the next process."""
    before: Change | None = None
    for point, name in cuts:
        with noted(f"{name}, killed at {point}"):
            before = _cut(scenario, point, name, before)
    scenario.start()
    _repeat(scenario, before)


def _cut(scenario: Scenario, point: str, name: str, before: Change | None) -> Change:
    """Run one process: it repeats the change before, and is killed during the next."""
    cause, make = CHANGES[name]
    failpoint = f"{point}/{cause}"
    if cause == "audit":  # prepared by an audit, during which the failpoint must not kill
        scenario.start()
        _repeat(scenario, before)
        change = make(scenario)
        scenario.home.kill()
        scenario.start(failpoint)
    elif cause == "policy":  # each start writes the policy of its configuration
        scenario.reserve(50)
        scenario.start(f"{failpoint}:2")
        scenario.home.wait_policy()
        _repeat(scenario, before)
        change = make(scenario)
    else:
        scenario.start(failpoint)
        _repeat(scenario, before)
        change = make(scenario)
    scenario.dies_during(change.ask)
    change.settle(landed=point in DURABLE)
    return change


def _repeat(scenario: Scenario, change: Change | None) -> None:
    if change is not None:
        change.repeat()
    scenario.check()


def enrolments(scenario: Scenario, points: Iterable[str]) -> None:
    """Kill starts at each of these points: the very first start, and later ones."""
    for point in points:
        assert not scenario.home.start(point)
    scenario.start()
    scenario.build()
    node = scenario.check().node
    for point in points:
        scenario.home.kill()
        assert not scenario.home.start(point)
        epoch = scenario.check_database().node["epoch"]
        assert epoch == node["epoch"] + (point in DURABLE)
        scenario.start()
        node = scenario.check().node
        assert node["epoch"] == epoch + 1
