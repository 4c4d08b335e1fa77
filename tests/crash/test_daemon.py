"""The points of `test_boundaries`, with a real daemon, broker and database server."""

import itertools
import sqlite3
from contextlib import closing

import pytest

from rtagent.errors import RtAgentError
from tests.crash.changes import CHANGES, Called
from tests.crash.restarts import cut_off_each, enrolments
from tests.crash.scenario import call_in_background
from tests.crash.test_boundaries import COMMIT, INNER, OUTER, points
from tests.servers.daemon import Daemon, wait_until

#: A daemon's lease cannot expire within the time of a test.
NAMES = [name for name in CHANGES if name != "lapse"]
#: What reaches a daemon on different ways: a call about a claim that is new or is not, a call about
#: several, the configuration, and an audit.
WAYS = ["claim", "release", "claims", "reserve", "audit"]


def test_change_is_atomic_and_made_once(daemon_on, database: str, long: bool):
    """Each way of a change occurs, at a point of its own. With the agent in a child process, each
    change and each point occurs, on each kind of database (`test_boundaries`).
    """
    few = zip([*INNER[::3], *OUTER], WAYS, strict=True)
    cut_off_each(daemon_on(database), itertools.product(COMMIT, NAMES) if long else few)


def test_killed_enrolment_leaves_the_node_to_the_next_start(daemon_on):
    """With the agent in a child process, on each kind of database (`test_boundaries`)."""
    scenario = daemon_on("sqlite")
    enrolments(scenario, points("enroll"))
    file = scenario.home.daemon.directory / "compute_id"
    assert scenario.check_database().node["uuid"] == file.read_text().strip()


@pytest.mark.parametrize("point", points("reload"))
def test_agent_killed_while_it_resolves_a_locked_database(daemon_on, point: str):
    """SQLite: a transaction of another program holds the lock for too long."""
    scenario = daemon_on("sqlite")
    scenario.start(point)
    scenario.build()
    change = Called(scenario, scenario.factory.claim())
    daemon = scenario.home.daemon
    with closing(sqlite3.connect(daemon.directory / "rtagent.sqlite")) as other:
        other.execute("BEGIN IMMEDIATE")
        call_in_background(change.ask)
        wait_until(lambda: stale(daemon))
    scenario.home.wait_died()
    change.settle(landed=False)
    scenario.start()
    change.repeat()
    scenario.check()


def stale(daemon: Daemon) -> bool:
    """Whether the daemon has noticed the failed commit, or was killed by then."""
    try:
        return bool(daemon.read("nodes")["stale"])
    except RtAgentError:
        return True
