"""Housekeeping: purges operations, released claims and finished moves after their retention."""

from rtagent.errors import StoreUnavailable, TrackerBusy
from rtagent.lifecycle import moves
from rtagent.model.stored import Retention
from rtagent.ports import Store
from rtagent.service.context import NodeContext
from rtagent.service.loop import Rest, every
from rtagent.tracker import ResourceTracker

#: Seconds between two turns. Of the time for which an agent has run, at most this much is not
#: counted when it ends.
INTERVAL = 600.0
#: Seconds until the next attempt, if the store did not execute a purge.
RETRY = 60.0


class Housekeeping:
    """The turns of the thread ``housekeeping``.

    The age of a record is the time for which the node's agents have run since it was written. The
    time of day of this host and of the database's does not matter.
    """

    def __init__(self, context: NodeContext, store: Store, tracker: ResourceTracker) -> None:
        self._context, self._store, self._tracker = context, store, tracker
        self._reporter = context.reporter.named(__name__)
        # None: what earlier processes have counted is not read yet.
        self._retention: Retention | None = None
        self._counted_to = context.clock.monotonic()

    def turn(self) -> Rest:
        """Purge what is older than ``[claims] operation_retention``."""
        try:
            purged = self._purge()
        except (StoreUnavailable, TrackerBusy) as error:
            self._reporter.log("info", f"housekeeping is postponed: {error.message}")
            return every(RETRY)
        if purged:
            self._reporter.log("info", f"housekeeping: purged {purged} rows")
        return every(INTERVAL)

    def _purge(self) -> int:
        state, now = self._tracker.snapshot(), self._context.clock.monotonic()
        seconds = self._context.settings.current.claims.operation_retention
        before = self._retention or self._store.retention(state.node.uuid)
        kept = before.after(now - self._counted_to, state.revision, moves.ended(state))
        purged = self._tracker.purge_moves(kept.expired_moves(seconds))
        revision = kept.expired_revision(seconds)
        kept = kept.without(revision)
        purged += self._store.purge(state.node.uuid, revision, kept)
        self._retention, self._counted_to = kept, now
        return purged
