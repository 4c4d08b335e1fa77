"""AggregateTypeAffinityFilter: aggregates that only certain flavors are for."""

from __future__ import annotations

from rtagent.scheduler.aggregate_values import values_of
from rtagent.scheduler.filter import Check, Filter, Rejection
from rtagent.scheduler.host_state import HostState
from rtagent.scheduler.request import Request


class AggregateTypeAffinityFilter(Filter):
    """Refuse a host whose aggregates name other flavors as ``instance_type``."""

    cost = 1

    def prepare(self, request: Request) -> Check | None:
        """Judge every request."""
        flavor = request.spec.flavor.name

        def check(host: HostState) -> Rejection | None:
            if not host.aggregates:
                return None
            flavors = values_of(host, "instance_type")
            if not flavors or flavor in flavors:
                return None
            return Rejection(f"its aggregates are for the flavors {', '.join(flavors)}")

        return check
