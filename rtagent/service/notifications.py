"""Notifications: publishes the recorded events in their order, each at least once."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from rtagent.bus import StatePublished
from rtagent.errors import StoreUnavailable
from rtagent.model.event import RecordedEvents, credible
from rtagent.ports import EventLog
from rtagent.rpc.casts import CastFailed
from rtagent.rpc.notifier import EventSender
from rtagent.service.context import NodeContext
from rtagent.service.loop import Backoff, Rest, every
from rtagent.telemetry.metrics import Metrics
from rtagent.tracker import ResourceTracker

PART = "notifications"
#: How many commits one turn publishes at most.
ROWS = 32
#: How many events it publishes at most: the broker has to accept them in time.
EVENTS = 200
#: Seconds between two turns at least, so that the events of many commits share the write of the
#: position.
GATHER = 0.1
#: The pause after a turn, as a multiple of the time that the turn has taken: claims come first.
PAUSE = 4.0
#: Seconds of the longest pause.
LONGEST_PAUSE = 2.0
#: Seconds after which the events are looked at, whether or not there was a commit.
INTERVAL = 5.0


class Notifications:
    """The turns of the thread ``notifications``.

    The position is written after the broker has accepted the events. So events are published again
    if the process is killed in between, and none is left out. Consumers recognise them by their id.
    """

    def __init__(
        self,
        context: NodeContext,
        log: EventLog,
        tracker: ResourceTracker,
        sender: EventSender | None,
        kept: int,
        wake: Callable[[], None],
    ) -> None:
        """:param sender: None: notifications are off. :param kept: how many events stay.
        :param wake: runs the next turn soon.
        """
        self._context, self._clock = context, context.clock
        self._reporter = context.reporter.named(__name__)
        self._log, self._tracker, self._sender, self._kept = log, tracker, sender, kept
        self._node_uuid = tracker.snapshot().node.uuid
        # Where publishing begins if nothing was published before.
        self._begin = tracker.snapshot().event_sequence
        self._position: int | None = None
        self._epoch = tracker.snapshot().epoch
        self._backoff = Backoff()
        self._reporter.counted("events_dropped", "unpublished", 0)
        if sender is not None:
            # Before the first event of this process, because a kill would lose where it began. A
            # database that does not answer now has no event to publish either.
            with suppress(StoreUnavailable):
                self._load_position(sender)
            context.bus.subscribe(StatePublished, lambda _: wake())

    @property
    def unpublished(self) -> int:
        """How many recorded events the broker has not accepted yet."""
        if self._sender is None:
            return 0
        position = self._begin if self._position is None else self._position
        return max(0, self._tracker.snapshot().event_sequence - position)

    @property
    def congested(self) -> bool:
        """Whether half of the recorded events are unpublished, so that some may be dropped soon."""
        return self.unpublished > self._kept // 2

    def turn(self) -> Rest:
        """Publish the next events."""
        began = self._clock.monotonic()
        try:
            if self._sender is None:
                self._log.set_published(self._node_uuid, None)
                return Rest()
            more = self._publish(self._sender)
        except StoreUnavailable as error:
            self._reporter.log("info", f"notifications are postponed: {error.message}")
            return every(self._backoff.pause())
        except CastFailed as error:
            self._reporter.health(PART, "warn", f"{self.unpublished} events wait: {error}")
            return every(self._backoff.pause())
        self._backoff.reset()
        self._reporter.health(PART, "pass")
        taken = self._clock.monotonic() - began
        pause = GATHER if self.congested else max(GATHER, min(LONGEST_PAUSE, PAUSE * taken))
        return Rest(at_least=pause, at_most=pause if more else max(pause, INTERVAL))

    def measure(self, metrics: Metrics) -> None:
        """Register the gauge of the outbox."""
        metrics.gauge(
            "events_unpublished",
            "Recorded events that the message broker has not accepted yet",
            lambda: self.unpublished,
        )

    def _publish(self, sender: EventSender) -> bool:
        """Publish the next events. Return whether there are more.

        :raises CastFailed: the position is that of the last event that was accepted nevertheless.
        """
        position, last = self._load_position(sender), self._tracker.snapshot().event_sequence
        found = self._log.read(self._node_uuid, position, ROWS)
        rows = credible(found, last)
        events = list(_after(rows, position))
        if not events:
            if rows:  # all of them are damaged
                self._advance(position, rows[-1].last, 0)
            return len(found) == ROWS and bool(rows)
        try:
            sender.send(events[:EVENTS])
        finally:
            if sender.accepted > position:
                sent = sum(number <= sender.accepted for number, _ in events)
                self._advance(position, sender.accepted, sent)
        return len(found) == ROWS or len(events) > EVENTS

    def _advance(self, position: int, reached: int, sent: int) -> None:
        """Write the new position. Count the events that were not there. :param sent: the others."""
        self._log.set_published(self._node_uuid, reached)
        self._position = reached
        if missing := reached - position - sent:
            self._reporter.counted("events_dropped", "unpublished", missing)
            self._reporter.log(
                "error",
                f"{missing} events were dropped before the message broker accepted them: more than"
                f" [events] kept = {self._kept} waited, or their rows are damaged",
            )

    def _load_position(self, sender: EventSender) -> int:
        """Return the number of the last published event."""
        epoch = self._tracker.snapshot().epoch
        if epoch != self._epoch:  # the database may have gone back in time, with the position
            self._epoch, self._position = epoch, None
            sender.accepted = 0
        if self._position is None:
            found = self._log.published(self._node_uuid)
            if found is None:
                found = self._begin
                self._log.set_published(self._node_uuid, found)
            self._position = found
        return self._position


def _after(rows: Sequence[RecordedEvents], position: int) -> Iterator[tuple[int, bytes]]:
    """Yield the events after a position with their numbers."""
    for row in rows:
        for number, document in enumerate(row.documents, row.first):
            if number > position:
                yield number, document
