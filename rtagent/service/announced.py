"""The events that are no part of a change: of a refusal, an audit, a measurement, the service."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from rtagent.audit import PERIODIC, AuditEnded, AuditSummary
from rtagent.bus import Bus, CallRefused
from rtagent.model.change import Call
from rtagent.model.event import (
    AUDIT_END,
    CLAIM_REFUSE,
    METRICS_UPDATE,
    SERVICE_UPDATE,
    Notification,
)
from rtagent.model.event_payloads import (
    AuditPayload,
    MetricsPayload,
    RefusalPayload,
    ServicePayload,
)
from rtagent.model.metric import Metric, documents
from rtagent.model.printable import printable
from rtagent.ports import Service
from rtagent.service.context import Measured, ServiceChanged

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
        payload=AuditPayload(
            audit_cause=summary.cause,
            complete=summary.complete,
            applied=summary.applied,
            skipped=summary.skipped,
            claims=summary.claims,
            orphans=summary.orphans,
            drifts=summary.drifts,
            absent=summary.absent,
            suspects=summary.suspects,
            problems=len(summary.problems),
            seconds=summary.seconds,
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
    return Notification(
        type=SERVICE_UPDATE,
        payload=ServicePayload(
            binary=service.binary,
            disabled=service.disabled,
            disabled_reason=reason and printable(reason, MAX_TEXT),
            forced_down=service.forced_down,
        ),
    )
