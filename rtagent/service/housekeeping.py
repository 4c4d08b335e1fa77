"""Housekeeping: what is kept for a time only is forgotten."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from rtagent.errors import StoreUnavailable, TrackerBusy
from rtagent.ports import Clock, Reporter, Store
from rtagent.service.loop import Rest, every

#: Seconds between two rounds.
INTERVAL = 3600.0
#: And after one that the store did not do.
RETRY = 60.0


class Housekeeping:
    """The turns of the housekeeping thread."""

    def __init__(
        self,
        store: Store,
        node_uuid: str,
        clock: Clock,
        reporter: Reporter,
        *,
        retention: Callable[[], int],
        forget_moves: Callable[[datetime], int],
    ) -> None:
        """:param retention: seconds for which operations and released claims are kept.
        :param forget_moves: `ResourceTracker.forget_moves`.
        """
        self._store, self._node_uuid = store, node_uuid
        self._clock, self._reporter = clock, reporter
        self._retention, self._forget_moves = retention, forget_moves

    def turn(self) -> Rest:
        """Purge what is too old."""
        before = self._clock.now() - timedelta(seconds=self._retention())
        try:
            gone = self._forget_moves(before) + self._store.purge(self._node_uuid, before)
        except (StoreUnavailable, TrackerBusy) as error:
            self._reporter.said("info", f"housekeeping is put off: {error.message}")
            return every(RETRY)
        if gone:
            self._reporter.said("info", f"housekeeping: {gone} rows of before {before} are gone")
        return every(INTERVAL)
