"""Agents are killed at each point of each kind of transaction, on each kind of database."""

import pytest

from rtagent.testing.failpoints import POINTS
from tests.crash.changes import CHANGES, Called
from tests.crash.restarts import cut_off_each, enrolments
from tests.crash.scenario import Scenario

#: On a server, a change occurs at one of so many points, unless the run is long.
TURNS = 3


def points(transaction: str) -> list[str]:
    """Return the points of a kind of transaction."""
    return [point for point in POINTS if point.startswith(transaction)]


@pytest.mark.parametrize("point", points("commit"))
def test_change_is_atomic_and_made_once(child: Scenario, point: str, database_url: str, long: bool):
    """On SQLite each change occurs at each point; on a server each at some points, and some at each
    point.
    """
    all_of_them = long or database_url.startswith("sqlite")
    first, each = (0, 1) if all_of_them else (points("commit").index(point) % TURNS, TURNS)
    cut_off_each(child, [(point, name) for name in list(CHANGES)[first::each]])


def test_killed_enrolment_leaves_the_node_to_the_next_start(child: Scenario):
    enrolments(child, points("enroll"))


@pytest.mark.parametrize("done", [True, False])
@pytest.mark.parametrize("point", points("reload"))
def test_agent_killed_while_it_resolves_a_lost_commit(child: Scenario, point: str, done: bool):
    """The connection is lost in a commit, and the agent is killed while it reloads."""
    child.start(point)
    child.build()
    change = Called(child, child.factory.claim())
    child.home.invoke("lose_commit", done=done)
    child.dies_during(change.ask)
    change.settle(landed=done)
    child.start()
    change.repeat()
    child.check()


@pytest.mark.parametrize("point", points("purge"))
def test_purge_keeps_what_is_held(child: Scenario, point: str):
    child.start(point)
    kept, gone = child.build(), child.build()
    child.do(child.factory.step("release_claim", gone.uuid))
    child.do(child.factory.abort_unknown())
    child.dies_during(lambda: child.home.invoke("purge"))
    if point == "purge.after":
        child.ledger.state.purge()
    child.check_database()
    child.start()
    child.home.invoke("purge")
    child.ledger.state.purge()
    assert child.check().claims.keys() == {kept.uuid}
