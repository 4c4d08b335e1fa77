"""A node whose store can be taken back to an earlier copy, while its agent runs or is stopped."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from rtagent.audit import Auditor
from rtagent.claims import activate_claim, build_failed, instance_claim, renew_claim
from rtagent.errors import RestoreNotFound, StoreRestored, StoreUnavailable
from rtagent.identity.witness import FileWitness
from rtagent.model.claim import BUILDING
from rtagent.model.node_state import NodeState
from rtagent.ports import NullReporter
from rtagent.testing.hypervisor import FakeHypervisor
from rtagent.tracker import ResourceTracker
from tests.support.hosts import NODE, TOPOLOGY, ManualClock, call, request
from tests.support.stores import Database
from tests.support.trackers import claim, enroll, release


class RestoredNode:
    """:ivar history: a copy of the store after each commit, and the state that it has."""

    def __init__(self, directory: Path, copies: Database) -> None:
        self.directory, self.copies = directory, copies
        self.clock, self.world = ManualClock(), FakeHypervisor(TOPOLOGY)
        self.history: list[tuple[Any, NodeState | None]] = [(copies.take(), None)]
        self._witness: FileWitness | None = None
        self.start()

    @property
    def state(self) -> NodeState:
        return self.tracker.snapshot()

    def start(self) -> None:
        """Start a new process, as `rtagent.embedded.open_node` does."""
        self.stop()
        store = self.copies.store()
        state = enroll(store)
        self._witness = FileWitness(str(self.directory), store.load(NODE.uuid), NullReporter())
        self.tracker = ResourceTracker(store, self.clock, state, witness=self._witness)
        self.tracker.recover()
        self.auditor = Auditor(self.tracker, self.world, self.clock)
        self.tracker.listen(lambda state, changes: self._remember())
        self._remember()
        assert self.auditor.run("start").good

    def stop(self) -> None:
        """End the process."""
        if self._witness is not None:
            self._witness.close()
            self._witness = None

    def do(self, verb: str, which: int) -> None:
        """Do something with one of the live claims."""
        claims = sorted(self.state.claims)
        chosen = claims[which % len(claims)] if claims else None
        if verb == "claim" and len(claims) < 8:
            claim(self.tracker)
        elif verb == "count":
            self.tracker.execute(build_failed, call("build_failed"))
        elif verb == "restart":
            self.start()
        elif verb == "release" and chosen:
            release(self.tracker, chosen)
        elif verb == "activate" and chosen:
            self.tracker.change(activate_claim, call("activate_claim"), chosen)
        elif verb == "renew" and chosen and self.state.claims[chosen].state == BUILDING:
            self.clock.advance(1)
            self.tracker.change(renew_claim, call("renew_claim"), chosen)

    def marks(self) -> dict[str, bytes]:
        """What the state directory has."""
        return {file.name: file.read_bytes() for file in self.directory.iterdir()}

    def put_marks(self, marks: dict[str, bytes]) -> None:
        """Replace what the state directory has. The process has ended."""
        for file in self.directory.iterdir():
            file.unlink()
        for name, content in marks.items():
            (self.directory / name).write_bytes(content)

    def _remember(self) -> None:
        if self.tracker.restored is None and not self.tracker.stale:
            self.history.append((self.copies.take(), self.state))


def states(state: NodeState | None) -> dict[str, str]:
    """The state of each claim."""
    return {} if state is None else {claim.uuid: claim.state for claim in state.claims.values()}


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


def check_every_copy(directory: Path, copies: Database, deeds: Sequence[tuple[str, int]]) -> None:
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
    for create in (lambda: claim(tracker), lambda: tracker.test_claim(instance_claim, request())):
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
