"""The sections of an agent's state report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from rtagent.model.claim import Claim
from rtagent.model.timeline import AUDIT
from rtagent.rpc.in_flight import InFlight
from rtagent.service.loop import Loop
from rtagent.service.placement import NoPlacement, Placement
from rtagent.telemetry.timeline import Timeline
from rtagent.tracker import ResourceTracker

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


def queues(tracker: ResourceTracker, in_flight: InFlight, loops: Iterable[Loop]) -> Iterator[str]:
    """Yield what waits for the state writer, what is being served, and which threads are late."""
    yield f"waiting for the state writer: {tracker.waiting}"
    if fault := tracker.fault:
        yield f"the state writer has a fault: {fault.message}"
    yield f"calls in flight: {len(in_flight)}"
    yield from str(in_flight).split(", ") if in_flight else ()
    for loop in loops:
        yield f"thread {loop.name}: late by {loop.overdue:.1f} s"


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
