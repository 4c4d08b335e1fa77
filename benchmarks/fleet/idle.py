"""Idle: what agents send, write and use while nothing happens."""

from __future__ import annotations

from benchmarks.fleet.boot import wait_settled
from benchmarks.fleet.counts import Counts, Meter
from benchmarks.fleet.fleet import Fleet
from benchmarks.fleet.measured import Phase, Value
from benchmarks.fleet.progress import Progress

#: The bound of messages in the targets.
MESSAGES = 5.0


def without_agents(meter: Meter, seconds: float, progress: Progress) -> Counts:
    """Return what the schedulers alone send and use."""
    meter.read()
    progress.wait("schedulers without agents", seconds)
    return meter.read()


def idle(fleet: Fleet, meter: Meter, alone: Counts, seconds: float, progress: Progress) -> Phase:
    """Count for some time. :param alone: see `without_agents`."""
    wait_settled(fleet, progress)
    progress.wait("reports of the start", fleet.intervals.report)
    meter.read()
    progress.wait("idle", seconds)
    counts = meter.read()
    per_minute = 60 / counts.seconds / len(fleet.names)
    share = counts.seconds / alone.seconds
    own = max(0.0, counts.messages - counts.reports - (alone.messages - alone.reports) * share)
    intervals = counts.seconds / fleet.intervals.report * len(fleet.names)
    reads = [request for request in counts.requests if request.method == "GET"]
    statements = sum(counts.statements.values()) - sum(alone.statements.values()) * share
    return Phase(
        name="idle",
        what=f"{len(fleet.names)} agents for {counts.seconds:.0f} s; each value is of one agent",
        values=(
            Value(
                name="messages beside reports",
                value=own * per_minute,
                unit="1/min",
                target=MESSAGES,
            ),
            Value(name="reports", value=counts.reports * per_minute, unit="1/min"),
            Value(
                name="writing transactions in a report_interval",
                value=counts.transactions / intervals,
                unit="transactions",
                target=1.0,
            ),
            Value(name="SQL statements", value=statements * per_minute, unit="1/min"),
            Value(name="requests of refreshes", value=len(reads) * per_minute, unit="1/min"),
            Value(
                name="other requests to Placement",
                value=(len(counts.requests) - len(reads)) * per_minute,
                unit="1/min",
                target=0.0,
            ),
            *(
                Value(name=f"CPU time of {part}", value=used * per_minute * 1000, unit="ms/min")
                for part, used in _without(counts, alone, share).items()
            ),
        ),
    )


def _without(counts: Counts, alone: Counts, share: float) -> dict[str, float]:
    """Return the CPU seconds that the agents cause, by part."""
    return {
        name: max(0.0, used - alone.cpu.get(name, 0.0) * share) for name, used in counts.cpu.items()
    }
