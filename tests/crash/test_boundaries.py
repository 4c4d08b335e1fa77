"""Agents are killed at each point of each kind of transaction, on each kind of database."""

import itertools

from rtagent.testing.failpoints import POINTS
from tests.crash.changes import CHANGES, Called
from tests.crash.conftest import DATABASES
from tests.crash.restarts import cut_off_each, enrolments
from tests.crash.scenario import Scenario, noted


def points(transaction: str) -> list[str]:
    """Return the points of a kind of transaction."""
    return [point for point in POINTS if point.startswith(transaction)]


COMMIT = points("commit")
#: Nothing was committed yet, but every row is written; and everything was committed. A row that is
#: written outside of the transaction is noticed at the first, whichever it is.
OUTER = ["commit.notifications", "commit.after"]
INNER = [point for point in COMMIT if point not in OUTER]


def test_change_is_atomic_and_made_once(child: Scenario, turn: int, long: bool):
    """Each change occurs at the outer points and at one of the others, and each point occurs: one
    of the three on each database in turn. In a long run each change occurs at each point on each.
    """
    few = [
        ([*OUTER, INNER[at % len(INNER)]][(at + turn) % len(DATABASES)], name)
        for at, name in enumerate(CHANGES)
    ]
    cut_off_each(child, itertools.product(COMMIT, CHANGES) if long else few)


def test_killed_enrolment_leaves_the_node_to_the_next_start(child: Scenario):
    enrolments(child, points("enroll"))


def test_agent_killed_while_it_resolves_a_lost_commit(child: Scenario, turn: int, long: bool):
    """The connection is lost in a commit, and the agent is killed while it reloads.

    Each case on one of the databases in turn; in a long run on each.
    """
    cases = list(itertools.product(points("reload"), (True, False)))
    for point, done in cases if long else cases[turn :: len(DATABASES)]:
        with noted(f"killed at {point}, the commit was {'' if done else 'not '}done"):
            child.start(point)
            child.build()
            change = Called(child, child.factory.claim())
            child.home.invoke("lose_commit", done=done)
            child.dies_during(change.ask)
            change.settle(landed=done)
            child.start()
            change.repeat()
            child.check()
            child.home.kill()


def test_purge_keeps_what_is_held(child: Scenario, turn: int, long: bool):
    """One of both points on each database in turn; in a long run both."""
    kept = set[str]()
    for point in points("purge") if long else points("purge")[turn % 2 :: 2]:
        with noted(f"killed at {point}"):
            child.start(point)
            kept.add(child.build().uuid)
            child.do(child.factory.step("release_claim", child.build().uuid))
            child.do(child.factory.abort_unknown())
            child.dies_during(lambda: child.home.invoke("purge"))
            if point == "purge.after":
                child.ledger.state.purge()
            child.check_database()
            child.start()
            child.home.invoke("purge")
            child.ledger.state.purge()
            assert child.check().claims.keys() == kept
            child.home.kill()
