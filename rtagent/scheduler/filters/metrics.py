"""MetricsFilter: hosts that have the metrics that are weighed."""

from __future__ import annotations

from rtagent.scheduler.filter import Check, Filter, Rejection
from rtagent.scheduler.host_state import HostState
from rtagent.scheduler.request import Request


class MetricsFilter(Filter):
    """Refuse a host that lacks a metric of ``[metrics] weight_setting``."""

    def prepare(self, request: Request) -> Check | None:
        """Judge every request if metrics are weighed."""
        needed = frozenset(self.options.metrics.weight_setting)

        def check(host: HostState) -> Rejection | None:
            missing = needed.difference(metric.name for metric in host.metrics)
            if not missing:
                return None
            return Rejection(f"it has no metric {', '.join(sorted(missing))}")

        return check if needed else None
