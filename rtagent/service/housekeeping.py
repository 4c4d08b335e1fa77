"""Housekeeping: purges operations, released claims and finished moves after their retention."""

from __future__ import annotations

from datetime import timedelta

from rtagent.errors import StoreUnavailable, TrackerBusy
from rtagent.ports import Store
from rtagent.service.context import NodeContext
from rtagent.service.loop import Rest, every
from rtagent.tracker import ResourceTracker

#: Seconds between two purges.
INTERVAL = 3600.0
#: Seconds until the next attempt, if the store did not execute a purge.
RETRY = 60.0


class Housekeeping:
    """The turns of the thread ``housekeeping``."""

    def __init__(self, context: NodeContext, store: Store, tracker: ResourceTracker) -> None:
        self._context, self._store, self._tracker = context, store, tracker
        self._reporter = context.reporter.named(__name__)

    def turn(self) -> Rest:
        """Purge what is older than ``[claims] operation_retention``."""
        retention = self._context.settings.current.claims.operation_retention
        before = self._context.clock.now() - timedelta(seconds=retention)
        node_uuid = self._tracker.snapshot().node.uuid
        try:
            purged = self._tracker.purge_moves(before) + self._store.purge(node_uuid, before)
        except (StoreUnavailable, TrackerBusy) as error:
            self._reporter.log("info", f"housekeeping is postponed: {error.message}")
            return every(RETRY)
        if purged:
            self._reporter.log("info", f"housekeeping: purged {purged} rows from before {before}")
        return every(INTERVAL)
