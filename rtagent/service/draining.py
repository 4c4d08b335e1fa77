"""Draining: log when the node begins or ends to drain, and measure it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rtagent.model.change import Change
from rtagent.model.node_state import NodeState
from rtagent.model.printable import printable
from rtagent.ports import Clock, Reporter
from rtagent.telemetry.metrics import Metrics

#: Characters of what the caller has sent.
MAX_TEXT = 600


class Draining:
    """Follows the published changes. Thread-safe."""

    def __init__(self, snapshot: Callable[[], NodeState], clock: Clock, reporter: Reporter) -> None:
        self._snapshot, self._clock = snapshot, clock
        self._reporter = reporter.named(__name__)

    def listener(self, state: NodeState, changes: Sequence[Change]) -> None:
        """Log the changes that begin, change or end the drain."""
        for change in changes:
            if change.drain is not None:
                self._log(change, f"{change.drain}; {len(state.claims)} claims remain")
            elif change.undrained:
                self._log(change, "the node is no longer drained")

    def measure(self, metrics: Metrics) -> None:
        """Register the gauges."""
        metrics.gauge("draining", "1 if the node is being drained", lambda: self._drain is not None)
        metrics.gauge(
            "drain_overdue_seconds",
            "Seconds since the deadline of the drain; 0: there is none, or it is not over",
            lambda: self._overdue,
        )

    @property
    def _drain(self) -> object:
        return self._snapshot().drain

    @property
    def _overdue(self) -> float:
        drain = self._snapshot().drain
        if drain is None or drain.deadline is None:
            return 0.0
        return max(0.0, (self._clock.now() - drain.deadline).total_seconds())

    def _log(self, change: Change, sentence: str) -> None:
        by = " ".join(word for word in (change.actor, change.request_id) if word)
        who = f" ({change.cause} by {by})" if by else f" ({change.cause})"
        self._reporter.log("info", printable(f"{sentence}{who}", MAX_TEXT))
