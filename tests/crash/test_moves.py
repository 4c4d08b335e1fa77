"""Agents are killed at each point of each call of a move, and the move continues undisturbed."""

import itertools
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from tests.crash.agent_home import ChildHome
from tests.crash.conftest import DATABASES
from tests.crash.host import moving
from tests.crash.move_agents import MoveAgents, Recording
from tests.crash.move_sequences import DEST, ENDS, ENDS_ON_ONE_HOST, SEQUENCES, SOURCE, Step
from tests.crash.test_boundaries import points
from tests.support.workload.deployment import DaemonHome, migrated

COMMIT = points("commit")
#: Nothing was committed yet, but every row is written; and everything was committed. A row that is
#: written outside of the transaction is noticed at the first, whichever it is.
OUTER = ["commit.notifications", "commit.after"]
#: A source that shares a database with the destination finds by itself that its guest was
#: evacuated, before a call reports it; with a database of its own it needs that call.
WITH_ONE = [name for name in SEQUENCES if name != "evacuated"]
WITH_ONE_EACH = [name for name in SEQUENCES if name != "found evacuated"]
ON_ONE_HOST = ["confirmed", "reverted", "failed", "deleted", "lapsed"]
#: A daemon's lease cannot expire within the time of a test.
LAPSE = "lapsed"

Points = Callable[[Step], Iterable[str]]


def every() -> Points:
    return lambda step: COMMIT


def by_turns() -> Points:
    """One point for each step, in turn."""
    turns = itertools.cycle(COMMIT)
    return lambda step: [next(turns)]


def more_at_first() -> Points:
    """One point of each call in turn; and the outer ones, if it is made at that side for the first
    time.
    """
    seen, in_turn = set[tuple[str, str]](), by_turns()

    def at(step: Step) -> Iterable[str]:
        known = (step.side, step.method) in seen
        seen.add((step.side, step.method))
        (point,) = in_turn(step)
        return [point] if known else sorted({point, *OUTER}, key=COMMIT.index)

    return at


def every_other_step() -> Points:
    """One point of every other step: of the claim after its commit, of the later ones before."""
    turns = itertools.cycle([["commit.after"], [], [], ["commit.events"]])
    return lambda step: next(turns)


@pytest.fixture
def two() -> Iterator[Callable[..., MoveAgents]]:
    """Factory: takes the deployments of source and destination, which may be the same."""
    made: list[MoveAgents] = []

    def make(source: ChildHome | DaemonHome, dest: ChildHome | DaemonHome) -> MoveAgents:
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


def run(agents: MoveAgents, names: Iterable[str], points: Points) -> None:
    for name in names:
        recording = agents.record(SEQUENCES[name]())
        assert statuses(recording) == (ENDS if agents.two else ENDS_ON_ONE_HOST)[name]
        agents.replay(SEQUENCES[name](), recording, points)


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
    names = WITH_ONE if long else WITH_ONE[turn :: len(DATABASES)]
    run(agents, names, every() if long else more_at_first())


def test_two_agents_with_a_database_each(two, tmp_path: Path, long: bool):
    agents = two(home(tmp_path, 1), home(tmp_path, 2))
    names = WITH_ONE_EACH if long else ["failed", "evacuated"]
    run(agents, names, every() if long else by_turns())


def test_one_host(two, tmp_path: Path, long: bool):
    here = home(tmp_path, 1)
    run(two(here, here), ON_ONE_HOST, every() if long else by_turns())


def test_two_daemons_with_one_database(two, mover, postgresql, long: bool):
    url = migrated(postgresql.create_database())
    names = [name for name in WITH_ONE if name != LAPSE] if long else ["confirmed"]
    run(two(mover(url), mover(url)), names, by_turns() if long else every_other_step())
