"""Checks that a store which is taken back to an earlier commit is always noticed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from rtagent.errors import RestoreNotFound, StoreRestored, StoreUnavailable
from rtagent.model.node_state import NodeState
from tests.support.hosts import call, request
from tests.support.restored_node import RestoredNode, states
from tests.support.store_copies import Copies
from tests.support.trackers import claim, release


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


def check_every_copy(directory: Path, copies: Copies, deeds: Sequence[tuple[str, int]]) -> None:
    """Do something with claims; then take the store back to each earlier commit, and check that it
    is noticed at the next commit, by the periodic check of an idle agent, and by the next start.
    """
    node = RestoredNode(directory, copies)
    for verb, which in deeds:
        node.do(verb, which)
    node.stop()
    earlier, (last, _) = node.history[:-1], node.history[-1]
    marks = node.marks()
    for number, (copy, then) in enumerate(earlier):
        for way, notice in enumerate(NOTICED_BY):
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
            if way == number % len(NOTICED_BY):
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
