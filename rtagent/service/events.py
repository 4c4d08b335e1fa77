"""Events: writes announced events, and loads the recorded ones while a client reads them."""

from __future__ import annotations

import math
from collections.abc import Callable

from rtagent.api.event_tail import EventTail
from rtagent.bus import AnnouncementWaits, StatePublished
from rtagent.errors import StoreUnavailable, TrackerBusy
from rtagent.model.event import credible
from rtagent.ports import EventLog
from rtagent.service.context import NodeContext
from rtagent.service.loop import Rest
from rtagent.tracker import ResourceTracker

#: Seconds between two turns at least, so that commits come between two reads.
GATHER = 0.05
#: Seconds between two commits of announced events at least, and how many one of them has at most.
ANNOUNCED_EVERY, ANNOUNCED = 1.0, 64
#: How many commits one read has at most.
ROWS = 500
#: Seconds until a failed read or write is repeated.
RETRY = 2.0


class Events:
    """The turns of the thread ``events``.

    :ivar tail: what the read API shows.
    """

    def __init__(
        self,
        context: NodeContext,
        log: EventLog,
        tracker: ResourceTracker,
        kept: int,
        congested: Callable[[], bool],
        wake: Callable[[], None],
    ) -> None:
        """:param congested: whether so many events are unpublished that announced ones would be in
        the way of the events of changes. :param wake: runs the next turn soon.
        """
        self._clock, self._reporter = context.clock, context.reporter.named(__name__)
        self._log, self._tracker, self._congested = log, tracker, congested
        self._node_uuid, self._epoch = tracker.snapshot().node.uuid, tracker.snapshot().epoch
        self._announced_at = -math.inf
        self.tail = EventTail(self._sequence, kept, context.clock.monotonic, wake)
        context.bus.subscribe(AnnouncementWaits, lambda _: wake())
        context.bus.subscribe(StatePublished, lambda _: wake() if self.tail.wanted else None)

    def turn(self) -> Rest:
        """Write what is announced, and load what is new."""
        try:
            left = self._announce()
            more = self._load()
        except (StoreUnavailable, TrackerBusy) as error:
            self._reporter.log("info", f"events are postponed: {error.message}")
            return Rest(at_least=RETRY, at_most=RETRY)
        return Rest(at_least=GATHER, at_most=GATHER if more else left)

    def _announce(self) -> float:
        """Write announced events, if it is time. Return the seconds until it is time again."""
        announcements, now = self._tracker.announcements, self._clock.monotonic()
        if not announcements.waiting:
            return math.inf
        if (left := self._announced_at + ANNOUNCED_EVERY - now) > 0:
            return left
        if self._congested():
            announcements.drop()
            return math.inf
        self._announced_at = now
        announcements.write(ANNOUNCED, self._log)
        return ANNOUNCED_EVERY

    def _load(self) -> bool:
        """Load events for readers. Return whether there are more."""
        tail = self.tail
        if not tail.wanted:
            tail.forget()
            return False
        epoch = self._tracker.snapshot().epoch
        if epoch != self._epoch:  # the database may have gone back in time
            self._epoch = epoch
            tail.forget()
        rows = self._log.read(self._node_uuid, tail.last, ROWS)
        complete = len(rows) < ROWS
        tail.extend(credible(rows, self._sequence()), complete)
        return not complete

    def _sequence(self) -> int:
        return self._tracker.snapshot().event_sequence
