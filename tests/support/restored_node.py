"""A node whose store can be taken back to an earlier copy, while its agent runs or is stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rtagent.audit import Auditor
from rtagent.identity.witness import FileWitness
from rtagent.model.claim import BUILDING
from rtagent.model.node_state import NodeState
from rtagent.ports import NullReporter
from rtagent.testing.hypervisor import FakeHypervisor
from rtagent.tracker import ResourceTracker
from tests.support.hosts import NODE, TOPOLOGY, ManualClock, call
from tests.support.store_copies import Copies
from tests.support.trackers import claim, enroll, release


class RestoredNode:
    """:ivar history: a copy of the store after each commit, and the state that it has."""

    def __init__(self, directory: Path, copies: Copies) -> None:
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
            self.tracker.build_failed(call("build_failed"))
        elif verb == "restart":
            self.start()
        elif verb == "release" and chosen:
            release(self.tracker, chosen)
        elif verb == "activate" and chosen:
            self.tracker.activate_claim(chosen, call("activate_claim"))
        elif verb == "renew" and chosen and self.state.claims[chosen].state == BUILDING:
            self.clock.advance(1)
            self.tracker.renew_claim(chosen, call("renew_claim"))

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
