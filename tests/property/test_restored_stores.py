"""A store that is taken back to any earlier commit never passes unseen: it is noticed at the next
commit, by the periodic check of an idle agent, and at the start of a stopped one. Until an operator
accepts it, nothing is claimed and nothing is freed but by calls."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtagent.db.engine import open_engine
from rtagent.db.schema import metadata
from rtagent.errors import RestoreNotFound, StoreRestored, StoreUnavailable
from rtagent.model.node_state import NodeState
from tests.support.hosts import call, request
from tests.support.restored_node import RestoredNode, states
from tests.support.store_copies import Copies, MemoryCopies, SqlCopies
from tests.support.trackers import claim, release

VERBS = ("claim", "claim", "activate", "renew", "release", "count", "restart")
DEEDS = st.lists(st.tuples(st.sampled_from(VERBS), st.integers(0, 3)), min_size=1, max_size=6)
#: Every kind of commit.
TOUR = [
    *(("claim", 0), ("activate", 0), ("claim", 0), ("renew", 1), ("count", 0), ("restart", 0)),
    *(("claim", 0), ("release", 0), ("activate", 1), ("claim", 0)),
]


def next_commit(node: RestoredNode) -> None:
    with pytest.raises(StoreUnavailable):
        claim(node.tracker)
    node.tracker.recover()


def periodic_check(node: RestoredNode) -> None:
    node.tracker.check_position()
    assert node.tracker.stale
    with pytest.raises(StoreUnavailable):
        claim(node.tracker)
    node.tracker.recover()


def next_start(node: RestoredNode) -> None:
    node.start()


NOTICED_BY: tuple[Callable[[RestoredNode], None], ...] = (next_commit, periodic_check, next_start)


def check_every_copy(directory: Path, copies: Copies, deeds: list[tuple[str, int]]) -> None:
    node = RestoredNode(directory, copies)
    for verb, which in deeds:
        node.do(verb, which)
    node.stop()
    earlier, (last, _) = node.history[:-1], node.history[-1]
    marks = node.marks()
    for copy, then in earlier:
        for notice in NOTICED_BY:
            copies.put(last)
            node.put_marks(marks)
            node.start()
            before = node.state
            copies.put(copy)
            notice(node)
            if then is None and notice is not next_start:
                assert node.tracker.stale, "a node without a record stays refused"
                continue
            check_restored(node, before, then)
            check_accepted(node)


def check_restored(node: RestoredNode, before: NodeState, then: NodeState | None) -> None:
    tracker = node.tracker
    restore = tracker.restored
    assert restore is not None and not tracker.stale
    assert states(node.state) == states(then)
    assert node.state.revision > before.revision and node.state.epoch > before.epoch
    for create in (lambda: claim(tracker), lambda: tracker.test_claim(request())):
        with pytest.raises(StoreRestored, match="rtagent node accept-restore"):
            create()
    if restore.compared:
        changed = {each.claim_uuid for each in restore.differences}
        was, now = states(before), states(then)
        assert {
            uuid for uuid in was.keys() | now.keys() if was.get(uuid) != now.get(uuid)
        } <= changed
    node.clock.advance(10_000)
    assert node.auditor.run("periodic").good
    assert states(node.state) == states(then), "nothing lapses"


def check_accepted(node: RestoredNode) -> None:
    kept = states(node.state)
    if kept:
        ended, *_ = sorted(kept)
        release(node.tracker, ended)
        del kept[ended]
    node.start()
    restore = node.tracker.restored
    assert restore is not None, "a restart accepts nothing"
    with pytest.raises(RestoreNotFound):
        node.tracker.accept_restore(restore.revision + 1, call("accept_restore"))
    accepted = call("accept_restore")
    node.tracker.accept_restore(restore.revision, accepted)
    node.tracker.accept_restore(restore.revision, accepted)
    assert node.tracker.restored is None
    assert not node.tracker.lapsed(), "every lease runs its full term again"
    made = claim(node.tracker)
    node.start()
    assert node.tracker.restored is None
    assert states(node.state) == {**kept, made.uuid: "building"}


@settings(max_examples=10)
@given(deeds=DEEDS)
def test_store_in_memory_that_is_taken_back_to_any_commit_is_noticed(
    tmp_path_factory: pytest.TempPathFactory, deeds: list[tuple[str, int]]
):
    check_every_copy(tmp_path_factory.mktemp("state"), MemoryCopies(), deeds)


def test_embedded_database_that_is_taken_back_to_any_commit_is_noticed(tmp_path: Path):
    engine = open_engine(f"sqlite:///{tmp_path}/db.sqlite", 5)
    metadata.create_all(engine)
    (tmp_path / "state").mkdir()
    check_every_copy(tmp_path / "state", SqlCopies(engine), TOUR)
    engine.dispose()
