"""The gauges of an agent; they are read at each scrape."""

from __future__ import annotations

from collections.abc import Mapping

from rtagent.model.claim import LEASED_STATES
from rtagent.ports import Clock
from rtagent.service.audits import Audits
from rtagent.service.monitors import Monitors
from rtagent.telemetry.metrics import Metrics
from rtagent.tracker import ResourceTracker


def measure_node(
    metrics: Metrics, tracker: ResourceTracker, audits: Audits, monitors: Monitors, clock: Clock
) -> None:
    """Register them, besides those of the process."""
    metrics.gauge("audit_age_seconds", "Age of the last good audit", lambda: audits.age)
    metrics.gauge(
        "decisions_waiting",
        "Calls that wait for their turn at the state writer",
        lambda: tracker.waiting,
    )
    metrics.gauges(
        "lease_age_seconds",
        "state",
        "Age of the oldest claim that has a lease; 0: there is none",
        lambda: _lease_ages(tracker, clock),
    )
    metrics.gauge(
        "leases_lapsed",
        "Claims whose lease has ended and that were not released yet",
        lambda: len(tracker.lapsed()),
    )
    metrics.gauges(
        "host_metric",
        "metric",
        "What the compute monitors have measured",
        lambda: {metric.name: metric.value for metric in monitors.metrics},
    )


def _lease_ages(tracker: ResourceTracker, clock: Clock) -> Mapping[str, float]:
    now, ages = clock.now(), dict.fromkeys(sorted(LEASED_STATES), 0.0)
    for claim in tracker.snapshot().claims.values():
        if claim.state in ages:
            age = (now - claim.created_at).total_seconds()
            ages[claim.state] = max(ages[claim.state], age)
    return ages
