"""The same boundaries, with a real daemon between its callers, its broker and its database."""

import sqlite3
from contextlib import closing

import pytest

from rtagent.errors import RtAgentError
from tests.crash.changes import CHANGES, Called
from tests.crash.scene import in_vain
from tests.crash.test_boundaries import points
from tests.crash.tour import Stop, enrolments, tour
from tests.servers.daemon import Daemon, wait_until
from tests.servers.proxy import Fate

DATABASES = ["sqlite", "postgresql", "mariadb"]
#: A lease cannot be made to run out within the time that a test has.
NAMES = [name for name in CHANGES if name != "lapse"]


def some(each: int) -> list[Stop]:
    """So many changes for each boundary of a commit, every change at some."""
    stops = [(point, n) for point in points("commit") for n in range(each)]
    return [(point, NAMES[at % len(NAMES)]) for at, (point, _) in enumerate(stops)]


@pytest.mark.parametrize("database", DATABASES)
def test_every_change_is_whole_or_not_there_and_is_made_once(daemon_on, database: str, long: bool):
    few = 4 if database == "sqlite" else 2
    tour(daemon_on(database), some(3 * len(NAMES) if long else few))


@pytest.mark.parametrize("database", DATABASES)
def test_an_enrolment_that_is_cut_off_leaves_the_node_to_the_next_start(daemon_on, database: str):
    scene = daemon_on(database)
    enrolments(scene, points("enroll"))
    file = scene.home.daemon.directory / "compute_id"
    assert scene.judge().node["uuid"] == file.read_text().strip()


@pytest.mark.parametrize("point", points("reload"))
def test_a_database_that_was_locked_and_then_the_agent(daemon_on, point: str):
    """SQLite: another program's transaction was in the way for too long."""
    scene = daemon_on("sqlite")
    scene.live(point)
    scene.building()
    change = Called(scene, scene.writer.claim())
    daemon = scene.home.daemon
    with closing(sqlite3.connect(daemon.directory / "rtagent.sqlite")) as other:
        other.execute("BEGIN IMMEDIATE")
        in_vain(change.ask)
        wait_until(lambda: stale(daemon))
    scene.home.wait_died()
    change.settle(landed=False)
    scene.live()
    change.repeat()
    scene.confirm()


@pytest.mark.parametrize(
    ("database", "point", "fate"),
    [
        ("postgresql", "reload.before", Fate.UNANSWERED),
        ("postgresql", "reload.node", Fate.UNANSWERED),
        ("postgresql", "reload.after", Fate.LOST),
        ("mariadb", "reload.before", Fate.LOST),
        ("mariadb", "reload.node", Fate.LOST),
        ("mariadb", "reload.after", Fate.UNANSWERED),
    ],
)
def test_a_lost_commit_and_then_the_agent(daemon_on, database: str, point: str, fate: Fate):
    """Its connection is lost in a commit; it dies while it finds out what came of that."""
    scene = daemon_on(database, proxied=True)
    scene.keep_back(50)
    scene.live(point)
    scene.wait_right()  # all that is written at a start is written
    scene.building()
    change = Called(scene, scene.writer.claim())
    scene.home.proxy.doom(fate)
    scene.dies_of(change.ask)
    change.settle(landed=fate is Fate.UNANSWERED)
    scene.live()
    change.repeat()
    scene.confirm()


def stale(daemon: Daemon) -> bool:
    """Whether it has noticed, or has died of it."""
    try:
        return bool(daemon.read("nodes")["stale"])
    except RtAgentError:
        return True
