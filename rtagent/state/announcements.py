"""Announcements: events without a change, which wait until they are written."""

import itertools
import threading
from collections import deque
from datetime import datetime

import msgspec

from rtagent.bus import AnnouncementWaits
from rtagent.errors import ChangeRejected, StoreUnavailable
from rtagent.model.base import Value
from rtagent.model.change import ANNOUNCEMENT, Change
from rtagent.model.event import Notification
from rtagent.model.node_state import NodeState
from rtagent.ports import Clock, EventLog, Reporter
from rtagent.state.writer import StateWriter

#: How many announcements may wait. Others are dropped, and counted.
WAITING = 256


class _Head(Value, frozen=True, kw_only=True):
    """The fields of a recorded event by which an announcement is recognised."""

    event_type: str
    cause: str
    at: datetime


_decode = msgspec.json.Decoder(_Head).decode


class _Attempt(Value, frozen=True, kw_only=True):
    """A commit whose outcome is unknown. :ivar first: the number of its first event."""

    first: int
    change: Change

    @property
    def head(self) -> _Head:
        """The head of its first event."""
        first = self.change.notifications[0]
        return _Head(event_type=first.type, cause=self.change.cause, at=self.change.at)


class Announcements:
    """A bounded queue. Thread-safe; `add` returns at once."""

    def __init__(self, writer: StateWriter, clock: Clock, reporter: Reporter) -> None:
        self._writer, self._clock = writer, clock
        self._reporter = reporter.named(__name__)
        self._reporter.counted("events_dropped", "announced", 0)
        self._lock = threading.Lock()
        self._waiting = deque[Notification]()
        self._unknown: _Attempt | None = None

    def add(self, notification: Notification) -> None:
        """Queue an event, or drop it if too many wait."""
        with self._lock:
            dropped, first = len(self._waiting) >= WAITING, not self._waiting
            if not dropped:
                self._waiting.append(notification)
        if dropped:
            self._reporter.counted("events_dropped", "announced")
        elif first:
            self._writer.bus.publish(AnnouncementWaits())

    @property
    def waiting(self) -> int:
        """How many wait."""
        return len(self._waiting)

    def write(self, limit: int, log: EventLog) -> int:
        """Write the oldest ones, at most `limit`; how many were written. One thread calls this.

        Those that the database rejects are dropped. Those of a commit whose outcome was unknown are
        written again only if the database does not have them.

        :param log: shows whether a commit whose outcome was unknown was done.
        :raises StoreUnavailable: TrackerBusy: they wait on.
        """
        if (written := self._settle(log)) > 0:
            return written
        with self._lock:
            oldest = tuple(itertools.islice(self._waiting, limit))
        if not oldest:
            return 0
        change = Change(cause=ANNOUNCEMENT, at=self._clock.now(), notifications=oldest)

        def decide(state: NodeState) -> tuple[Change, None]:
            self._unknown = _Attempt(first=state.event_sequence + 1, change=change)
            return change, None

        try:
            self._writer.submit(decide, ANNOUNCEMENT)
        except ChangeRejected:
            self._unknown = None
            self._drop(len(oldest))
            return 0
        self._unknown = None
        self._remove(len(oldest))
        return len(oldest)

    def _settle(self, log: EventLog) -> int:
        """Find out whether the last commit was done, if that is unknown. Return how many events it
        has written.

        :raises StoreUnavailable: it is still unknown.
        """
        attempt = self._unknown
        if attempt is None:
            return 0
        if why := self._writer.status.stale:  # until a reload, the commit may still be done
            raise StoreUnavailable(why)
        written = len(attempt.change.notifications) if self._has(attempt, log) else 0
        self._unknown = None
        self._remove(written)
        return written

    def _has(self, attempt: _Attempt, log: EventLog) -> bool:
        """Return whether the first event of a commit is recorded."""
        node_uuid = self._writer.published.current.node.uuid
        for row in log.read(node_uuid, attempt.first - 1, 1):
            at = attempt.first - row.first
            if 0 <= at < len(row.documents):
                return _decode(row.documents[at]) == attempt.head
        return False

    def drop(self) -> None:
        """Drop all that wait, and count them."""
        self._unknown = None
        self._drop(self.waiting)

    def _drop(self, number: int) -> None:
        self._remove(number)
        self._reporter.counted("events_dropped", "announced", number)

    def _remove(self, number: int) -> None:
        with self._lock:
            for _ in range(number):
                self._waiting.popleft()
