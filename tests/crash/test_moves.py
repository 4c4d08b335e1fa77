"""Agents are killed at each point of each call of a move, and the move continues undisturbed."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from tests.crash.agent_home import ChildHome
from tests.crash.conftest import DATABASES
from tests.crash.host import moving
from tests.crash.move_agents import MoveAgents, Recording
from tests.crash.move_sequences import DEST, ENDS, ENDS_ON_ONE_HOST, SEQUENCES, SOURCE, Step
from tests.crash.test_boundaries import COMMIT, OUTER
from tests.support.workload.deployment import migrated

#: A source that shares a database with the destination finds by itself that its guest was
#: evacuated, before a call reports it; with a database of its own it needs that call.
WITH_ONE = [name for name in SEQUENCES if name != "evacuated"]
WITH_ONE_EACH = [name for name in SEQUENCES if name != "found evacuated"]
ON_ONE_HOST = ["confirmed", "reverted", "failed", "deleted", "lapsed"]

#: For each step of each sequence: the points of it at which the agent is killed.
Plan = Mapping[str, Sequence[Sequence[str]]]


def planned(names: Iterable[str], points: Callable[[Step], Sequence[str]]) -> Plan:
    """Plan sequences one after the other. :param points: returns the points of the next step."""
    return {name: [points(step) for step in SEQUENCES[name]().steps] for name in names}


def every(step: Step) -> Sequence[str]:
    return COMMIT


def by_turns(*turns: Sequence[str]) -> Callable[[Step], Sequence[str]]:
    """These points for each step, in turn."""
    several = itertools.cycle(turns)
    return lambda step: next(several)


def more_at_first() -> Callable[[Step], Sequence[str]]:
    """One point of each call in turn; and the outer ones, if it is made at that side for the first
    time.
    """
    seen, in_turn = set[tuple[str, str]](), by_turns(*ONE)

    def at(step: Step) -> Sequence[str]:
        known = (step.side, step.method) in seen
        seen.add((step.side, step.method))
        (point,) = in_turn(step)
        return [point] if known else sorted({point, *OUTER}, key=COMMIT.index)

    return at


#: One point for each step.
ONE = [[point] for point in COMMIT]
#: One point of every other step: of the claim after its commit, of the later ones before.
EVERY_OTHER = [["commit.after"], [], [], ["commit.events"]]


@pytest.fixture
def two() -> Iterator[Callable[..., MoveAgents]]:
    """Factory: takes the deployments of source and destination, which may be the same."""
    made: list[MoveAgents] = []

    def make(source: ChildHome, dest: ChildHome) -> MoveAgents:
        made.append(MoveAgents({SOURCE: source, DEST: dest}))
        return made[-1]

    yield make
    for agents in made:
        agents.close()


def home(directory: Path, number: int, url: str = "") -> ChildHome:
    """Make a deployment. :param url: a database that has its schema; "": its own."""
    place = directory / f"h{number}"
    place.mkdir()
    return ChildHome(place, url or migrated(f"sqlite:///{place}/own.sqlite"), moving(number))


def run(agents: MoveAgents, plan: Plan) -> None:
    for name, at in plan.items():
        recording = agents.record(SEQUENCES[name]())
        assert statuses(recording) == (ENDS if agents.two else ENDS_ON_ONE_HOST)[name]
        agents.replay(SEQUENCES[name](), recording, at)


def statuses(recording: Recording) -> tuple[str, ...]:
    """The status of each side's record at the end."""
    _, last = recording[-1]
    return tuple(last[side]["migrations"][0]["status"] for side in (DEST, SOURCE))


def test_two_agents_with_one_database(
    two, database_url: str, turn: int, tmp_path: Path, long: bool
):
    """Each move on one of the databases in turn; in a long run on each."""
    migrated(database_url)
    agents = two(home(tmp_path, 1, database_url), home(tmp_path, 2, database_url))
    plan = planned(WITH_ONE, every if long else more_at_first())
    names = WITH_ONE if long else WITH_ONE[turn :: len(DATABASES)]
    run(agents, {name: plan[name] for name in names})


def test_two_agents_with_a_database_each(two, tmp_path: Path, long: bool):
    agents = two(home(tmp_path, 1), home(tmp_path, 2))
    names = WITH_ONE_EACH if long else ["failed", "evacuated"]
    run(agents, planned(names, every if long else by_turns(*ONE)))


def test_one_host(two, tmp_path: Path, long: bool):
    here = home(tmp_path, 1)
    names = ON_ONE_HOST if long else ["confirmed", "reverted", "failed"]
    run(two(here, here), planned(names, every if long else by_turns(*EVERY_OTHER)))
