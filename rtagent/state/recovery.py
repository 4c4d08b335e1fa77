"""Recovery: reloads a stale state, and detects a newer writer."""

from __future__ import annotations

import threading

from rtagent.errors import InvariantViolated, StoreUnavailable, WriterFenced
from rtagent.model.node_state import NodeState, restore
from rtagent.ports import Reporter, Store
from rtagent.state.leases import Leases
from rtagent.state.published import PublishedState
from rtagent.state.status import WriterStatus


class Recovery:
    """Brings the published state back to what the database has."""

    def __init__(
        self,
        store: Store,
        published: PublishedState,
        status: WriterStatus,
        leases: Leases,
        reporter: Reporter,
    ) -> None:
        self._store, self._published, self._status = store, published, status
        self._leases, self._reporter = leases, reporter.named(__name__)
        self._one_at_a_time = threading.Lock()

    def recover(self) -> bool:
        """Reload the state once, if it is stale. The caller repeats this, with back-off, until it
        returns True."""
        with self._one_at_a_time:
            if not self._status.stale:
                return True
            if isinstance(self._status.fault, WriterFenced):
                return False
            state = self._published.current
            try:
                stored = self._store.reload(state.node.uuid, state.epoch)
            except StoreUnavailable as error:
                self._reporter.health("store", "fail", error.message)
                return False
            except WriterFenced as error:
                self._status.fail(error)
                return False
            self._resume(restore(stored, state.policy))
        return True

    def check_epoch(self) -> None:
        """Read the node's epoch. If a newer writer has raised it, the fault becomes `WriterFenced`.

        :raises StoreUnavailable:
        """
        state = self._published.current
        theirs = self._store.epoch(state.node.uuid)
        if theirs == state.epoch or self._status.stale:
            return  # a reload of our own may have raised it
        # Staleness ends after the new state is published: a reload that has ended shows here.
        if self._published.current.epoch == state.epoch:
            fenced = WriterFenced(node_uuid=state.node.uuid, ours=state.epoch, theirs=theirs)
            self._status.fail(fenced)
            self.report_fault()

    def verify(self, state: NodeState) -> None:
        """Check every invariant of a loaded state. If one is violated, no claim is granted."""
        try:
            state.check()
        except InvariantViolated as error:
            self._status.fail(error)
            self._reporter.health("tracker", "fail", error.message)

    def report_fault(self) -> None:
        """Report the fault, if there is one."""
        fault = self._status.fault
        if fault is not None:
            self._reporter.health("tracker", "fail", fault.message)
            self._reporter.log("error", fault.message)

    def _resume(self, state: NodeState) -> None:
        self.verify(state)
        self._published.current = state
        self._leases.begin(state)
        self._status.reloaded()
        self._reporter.health("store", "pass")
        self._reporter.log("info", f"the store is available again: {state!r}")
        self._published.notify(())
