"""What an agent shows of its node: gauges, sections of the state report, and a log of drains."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from rtagent.bus import StatePublished
from rtagent.model.change import Change
from rtagent.model.claim import LEASED_STATES, Claim
from rtagent.model.node_state import NodeState
from rtagent.model.printable import printable
from rtagent.model.timeline import AUDIT
from rtagent.ports import Clock
from rtagent.rpc.serving import InFlight
from rtagent.service.audits import Audits
from rtagent.service.context import NodeContext
from rtagent.service.loop import Turn
from rtagent.service.monitors import Monitors
from rtagent.service.placement import NoPlacement, Placement
from rtagent.telemetry.metrics import Metrics
from rtagent.telemetry.timeline import Timeline
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


#: The number of audits that are shown.
AUDITS = 20


def claims(tracker: ResourceTracker) -> Iterator[str]:
    """Yield the number of claims by state, then each claim, oldest first."""
    state = tracker.snapshot()
    numbers = Counter(claim.state for claim in state.claims.values())
    yield f"revision {state.revision}, epoch {state.epoch}, stale: {tracker.stale}"
    yield f"{len(state.claims)} claims: {dict(sorted(numbers.items()))}"
    yield f"{len(tracker.lapsed())} leases have ended"
    for claim in sorted(state.claims.values(), key=lambda claim: (claim.created_at, claim.uuid)):
        yield _claim(claim)


def queues(tracker: ResourceTracker, in_flight: InFlight, turns: Iterable[Turn]) -> Iterator[str]:
    """Yield what waits for the state writer, what is being served, and which turns are late."""
    yield f"waiting for the state writer: {tracker.waiting}"
    if fault := tracker.fault:
        yield f"the state writer has a fault: {fault.message}"
    yield f"calls in flight: {len(in_flight)}"
    yield from str(in_flight).split(", ") if in_flight else ()
    yield from delays(turns)


def delays(turns: Iterable[Turn]) -> Iterator[str]:
    """Yield for how long each turn has taken, or has not begun although it was due."""
    for turn in turns:
        yield f"{turn.name}: late by {turn.overdue:.1f} s"


def outboxes(tracker: ResourceTracker, placement: Placement | NoPlacement) -> Iterator[str]:
    """Yield the allocations that have to be written to Placement."""
    rows = placement.unwritten()
    why = f": {placement.error}" if placement.error else ""
    yield f"allocations to write: {len(rows)} of {len(tracker.snapshot().outbox)} rows{why}"
    for row in rows:
        yield f"{row.consumer_uuid} at revision {row.revision}, since {row.at:%Y-%m-%dT%H:%M:%SZ}"


def audits(timeline: Timeline) -> Sequence[str]:
    """Return the last audits, newest first."""
    entries = [each for each in timeline.view().entries if each.kind == AUDIT]
    return [f"{each.at:%Y-%m-%dT%H:%M:%SZ} {each.summary}" for each in entries[:AUDITS]]


def _claim(claim: Claim) -> str:
    suspect = f", suspect: {claim.suspect}" if claim.suspect else ""
    return (
        f"{claim.uuid} of {claim.owner_id}: {claim.kind}, {claim.state}, {claim.vcpus} vCPUs,"
        f" {claim.pcpus} pCPUs, {claim.memory_mb} MB, since {claim.created_at:%Y-%m-%dT%H:%M:%SZ}"
        f"{suspect}"
    )


#: Characters of what the caller has sent.
MAX_TEXT = 600


class DrainWatch:
    """Logs when the node begins or ends to drain, and measures it. Thread-safe."""

    def __init__(self, context: NodeContext, snapshot: Callable[[], NodeState]) -> None:
        self._snapshot, self._clock = snapshot, context.clock
        self._reporter = context.reporter.named(__name__)
        context.bus.subscribe(StatePublished, self._published)

    def _published(self, event: StatePublished) -> None:
        """Log the changes that begin, change or end the drain."""
        for change in event.changes:
            if change.drain is not None:
                self._log(change, f"{change.drain}; {len(event.state.claims)} claims remain")
            elif change.undrained:
                self._log(change, "the node is no longer drained")

    def measure(self, metrics: Metrics) -> None:
        """Register the gauges."""
        what = "1 if the node is being drained"
        metrics.gauge("draining", what, lambda: self._snapshot().drain is not None)
        metrics.gauge(
            "drain_overdue_seconds",
            "Seconds since the deadline of the drain; 0: there is none, or it is not over",
            self._overdue,
        )

    def _overdue(self) -> float:
        drain = self._snapshot().drain
        if drain is None or drain.deadline is None:
            return 0.0
        return max(0.0, (self._clock.now() - drain.deadline).total_seconds())

    def _log(self, change: Change, sentence: str) -> None:
        by = " ".join(word for word in (change.actor, change.request_id) if word)
        who = f" ({change.cause} by {by})" if by else f" ({change.cause})"
        self._reporter.log("info", printable(f"{sentence}{who}", MAX_TEXT))
