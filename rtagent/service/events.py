"""Events: writes announced events, and loads the recorded ones while a client reads them.

Announced is what is no part of a change: a refusal, an audit, a measurement, a new service state.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from rtagent.api.events import EventTail
from rtagent.audit import PERIODIC, AuditEnded, AuditSummary
from rtagent.bus import AnnouncementWaits, Bus, CallRefused, StatePublished
from rtagent.errors import StoreUnavailable, TrackerBusy
from rtagent.model.base import made_from
from rtagent.model.change import Call
from rtagent.model.event import (
    AUDIT_END,
    CLAIM_REFUSE,
    METRICS_UPDATE,
    SERVICE_UPDATE,
    AuditPayload,
    MetricsPayload,
    Notification,
    RefusalPayload,
    ServicePayload,
    credible,
)
from rtagent.model.metric import Metric, documents
from rtagent.model.printable import printable
from rtagent.ports import EventLog, Service
from rtagent.service.context import Measured, NodeContext, ServiceChanged
from rtagent.service.loop import Rest, every
from rtagent.tracker import ResourceTracker

#: How many reasons the event of a refusal has. The caller gets all of them.
REASONS = 20
#: Characters of a sentence.
MAX_TEXT = 1000


def of_refusal(call: Call, reasons: Sequence[Mapping[str, Any]]) -> Notification:
    """Return the event of a refused call."""
    payload = RefusalPayload(
        method=call.method, claim_uuid=call.operation_id, reasons=reasons[:REASONS]
    )
    return Notification(type=CLAIM_REFUSE, payload=payload)


def of_audit(summary: AuditSummary) -> Notification:
    """Return the event of the end of an audit."""
    return Notification(
        type=AUDIT_END,
        payload=made_from(
            AuditPayload,
            summary,
            audit_cause=summary.cause,
            problems=len(summary.problems),
            refused=printable(summary.refused, MAX_TEXT),
            summary=printable(str(summary), MAX_TEXT),
        ),
    )


class Announcer:
    """Announces what happens, except a periodic audit that found what the audit before found.

    Such an event says nothing new, and the hosts of a fleet would write one each minute.
    """

    def __init__(self, bus: Bus, announce: Callable[[Notification], None]) -> None:
        self._announce = announce
        self._found: AuditSummary | None = None
        bus.subscribe(CallRefused, lambda event: announce(of_refusal(event.call, event.reasons)))
        bus.subscribe(Measured, lambda event: announce(of_metrics(event.metrics)))
        bus.subscribe(ServiceChanged, lambda event: announce(of_service(event.service)))
        bus.subscribe(AuditEnded, lambda event: self._audited(event.summary))

    def _audited(self, summary: AuditSummary) -> None:
        """Announce the end of an audit. Audits end one after the other."""
        found = replace(summary, cause="", seconds=0.0, applied=0, skipped=0)
        did = summary.applied or summary.skipped
        if summary.cause != PERIODIC or did or found != self._found:
            self._announce(of_audit(summary))
        self._found = found


def of_metrics(metrics: Sequence[Metric]) -> Notification:
    """Return the event of a measurement of the compute monitors."""
    return Notification(type=METRICS_UPDATE, payload=MetricsPayload(metrics=documents(metrics)))


def of_service(service: Service) -> Notification:
    """Return the event of a service that was disabled, enabled, or forced down."""
    reason = service.disabled_reason
    shown = reason and printable(reason, MAX_TEXT)
    payload = made_from(ServicePayload, service, disabled_reason=shown)
    return Notification(type=SERVICE_UPDATE, payload=payload)


#: Seconds between two turns at least, so that commits come between two reads.
GATHER = 0.05
#: Seconds between two commits of announced events at least, and how many one of them has at most.
ANNOUNCED_EVERY, ANNOUNCED = 1.0, 64
#: How many commits one read has at most.
ROWS = 500
#: Seconds until a failed read or write is repeated.
RETRY = 2.0


class EventTurns:
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
            return every(RETRY)
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
