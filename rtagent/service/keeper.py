"""Keeper: brings the tracker back when the store was away, and keeps its policy that of the
configuration."""

from __future__ import annotations

from collections.abc import Callable

from rtagent.errors import StoreUnavailable, TrackerBusy, WriterFenced
from rtagent.model.policy import Policy
from rtagent.ports import Reporter
from rtagent.service.backoff import Backoff
from rtagent.service.loop import Rest, every
from rtagent.tracker import ResourceTracker

#: Seconds for which a turn waits for the tracker to become stale.
PATIENCE = 0.5


class Keeper:
    """The turns of the keeper thread.

    :ivar policy: what the tracker's policy shall be. Setting it goes through the tracker's queue,
        also when nothing changes: that proves, once a turn, that the queue moves.
    """

    def __init__(
        self,
        tracker: ResourceTracker,
        policy: Policy,
        reporter: Reporter,
        *,
        returned: Callable[[], None],
        changed: Callable[[], None],
        fenced: Callable[[WriterFenced], None],
    ) -> None:
        """:param returned: called when the store is back. :param changed: when another policy is in
        force, and not before: what it makes of the host is then to be looked at. :param fenced:
        when another writes."""
        self.policy = policy
        self._tracker, self._reporter = tracker, reporter
        self._returned, self._changed, self._fenced = returned, changed, fenced
        self._backoff = Backoff()
        # The node's row is what another configuration made of it.
        self._row_is_old = True

    def turn(self) -> Rest:
        """Wait a moment for trouble; mend it, or see that there is none."""
        stale = self._tracker.wait_stale(PATIENCE)
        fault = self._tracker.fault
        if isinstance(fault, WriterFenced):
            self._fenced(fault)
            return Rest()
        return self._recover() if stale else self._pass_through()

    def _recover(self) -> Rest:
        if not self._tracker.recover():
            return every(self._backoff.pause())
        self._backoff.reset()
        self._returned()
        return every(0.0)

    def _pass_through(self) -> Rest:
        # Without the host's capacity nothing of use could be written.
        before = self._tracker.snapshot()
        anew = self._row_is_old and before.topology is not None
        try:
            self._tracker.set_policy(self.policy, anew=anew)
        except (StoreUnavailable, TrackerBusy) as error:
            self._reporter.said("warning", f"the policy is not in force yet: {error.message}")
        else:
            self._row_is_old = self._row_is_old and not anew
            if self._tracker.snapshot().policy != before.policy:
                self._changed()
        return every(0.0)
