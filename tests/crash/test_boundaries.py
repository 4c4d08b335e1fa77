"""An agent dies at each boundary of each kind of transaction, on each kind of database."""

import pytest

from rtagent.db.failpoints import POINTS
from tests.crash.changes import CHANGES, Called
from tests.crash.scene import Scene
from tests.crash.tour import enrolments, tour


def points(transaction: str) -> list[str]:
    """The boundaries of a kind of transaction."""
    return [point for point in POINTS if point.startswith(transaction)]


@pytest.mark.parametrize("point", points("commit"))
def test_every_change_is_whole_or_not_there_and_is_made_once(child: Scene, point: str):
    tour(child, [(point, name) for name in CHANGES])


def test_an_enrolment_that_is_cut_off_leaves_the_node_to_the_next_start(child: Scene):
    enrolments(child, points("enroll"))


@pytest.mark.parametrize("done", [True, False])
@pytest.mark.parametrize("point", points("reload"))
def test_a_lost_commit_and_then_the_agent(child: Scene, point: str, done: bool):
    """Its connection is lost in a commit; it dies while it finds out what came of that."""
    child.live(point)
    child.building()
    change = Called(child, child.writer.claim())
    child.home.invoke("lose_commit", done=done)
    child.dies_of(change.ask)
    change.settle(landed=done)
    child.live()
    change.repeat()
    child.confirm()


@pytest.mark.parametrize("point", points("purge"))
def test_what_is_forgotten_is_nothing_that_is_held(child: Scene, point: str):
    child.live(point)
    kept, gone = child.building(), child.building()
    child.do(child.writer.step("release_claim", gone.uuid))
    child.do(child.writer.abort_unseen())
    child.dies_of(lambda: child.home.invoke("purge"))
    if point == "purge.after":
        child.ledger.book.forget()
    child.judge()
    child.live()
    child.home.invoke("purge")
    child.ledger.book.forget()
    assert child.confirm().claims.keys() == {kept.uuid}
