"""Agents die at each boundary of each call of a move: the move goes on as if they had not."""

import itertools
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from tests.crash.child_home import ChildHome
from tests.crash.move_stage import Script, Stage
from tests.crash.move_story import DEST, ENDS, ENDS_ON_ONE_HOST, SOURCE, STORIES, Step
from tests.crash.site import moving
from tests.crash.test_boundaries import points
from tests.stream.home import DaemonHome, migrated

COMMIT = points("commit")
#: A source that shares a database with the destination finds by itself that its guest was
#: evacuated, before anybody can tell it; another has to be told.
WITH_ONE = [name for name in STORIES if name != "evacuated"]
WITH_ONE_EACH = [name for name in STORIES if name != "found evacuated"]
ON_ONE_HOST = ["confirmed", "reverted", "failed", "deleted", "lapsed"]
#: A lease cannot be made to run out within the time that a test with daemons has.
LAPSE = "lapsed"

Points = Callable[[Step], Iterable[str]]


def every() -> Points:
    return lambda step: COMMIT


def by_turns() -> Points:
    """One for each step, the next one each time."""
    turns = itertools.cycle(COMMIT)
    return lambda step: [next(turns)]


def every_at_first() -> Points:
    """All of them, of a call that is made at that side for the first time."""
    seen, others = set[tuple[str, str]](), by_turns()

    def at(step: Step) -> Iterable[str]:
        known = (step.side, step.method) in seen
        seen.add((step.side, step.method))
        return others(step) if known else COMMIT

    return at


def now_and_then() -> Points:
    """One of every other step: of the claim, after it is there; of what ends a move, before."""
    turns = itertools.cycle([["commit.after"], [], [], ["commit.events"]])
    return lambda step: next(turns)


@pytest.fixture
def two() -> Iterator[Callable[..., Stage]]:
    """Makes a stage of a source and a destination, which may be the same."""
    made: list[Stage] = []

    def make(source: ChildHome | DaemonHome, dest: ChildHome | DaemonHome) -> Stage:
        made.append(Stage({SOURCE: source, DEST: dest}))
        return made[-1]

    yield make
    for stage in made:
        stage.close()


def home(directory: Path, number: int, url: str = "") -> ChildHome:
    """:param url: of a database that has its schema; "": its own."""
    place = directory / f"h{number}"
    place.mkdir()
    return ChildHome(place, url or migrated(f"sqlite:///{place}/own.sqlite"), moving(number))


def play(stage: Stage, names: Iterable[str], points: Points) -> None:
    for name in names:
        script = stage.rehearse(STORIES[name]())
        assert statuses(script) == (ENDS if stage.two else ENDS_ON_ONE_HOST)[name]
        stage.perform(STORIES[name](), script, points)


def statuses(script: Script) -> tuple[str, ...]:
    """The status of each side's record at the end."""
    _, last = script[-1]
    return tuple(last[side]["migrations"][0]["status"] for side in (DEST, SOURCE))


def test_two_agents_with_one_database(two, database_url: str, tmp_path: Path, long: bool):
    migrated(database_url)
    stage = two(home(tmp_path, 1, database_url), home(tmp_path, 2, database_url))
    if long:
        play(stage, WITH_ONE, every())
    elif database_url.startswith("sqlite"):
        play(stage, WITH_ONE, every_at_first())
    else:
        play(stage, ["reverted", "found evacuated"], by_turns())


def test_two_agents_with_a_database_each(two, tmp_path: Path, long: bool):
    stage = two(home(tmp_path, 1), home(tmp_path, 2))
    names = WITH_ONE_EACH if long else ["failed", "evacuated"]
    play(stage, names, every() if long else by_turns())


def test_one_host(two, tmp_path: Path, long: bool):
    here = home(tmp_path, 1)
    play(two(here, here), ON_ONE_HOST, every() if long else by_turns())


def test_two_daemons_with_one_database(two, mover, postgresql, long: bool):
    url = migrated(postgresql.create_database())
    names = [name for name in WITH_ONE if name != LAPSE] if long else ["confirmed"]
    play(two(mover(url), mover(url)), names, by_turns() if long else now_and_then())


def test_two_daemons_with_a_database_each(two, mover, long: bool):
    names = [name for name in WITH_ONE_EACH if name != LAPSE] if long else ["failed"]
    play(two(mover(), mover()), names, by_turns() if long else now_and_then())
