"""AggregateMultiTenancyIsolation: aggregates that only certain tenants may use."""

from __future__ import annotations

from rtagent.scheduler.aggregate_values import values_of
from rtagent.scheduler.filter import Check, Filter, Rejection
from rtagent.scheduler.host_state import HostState
from rtagent.scheduler.request import Request

#: Keys that begin with this have uuids of projects, because one value is too short for many.
_PREFIX = "filter_tenant_id"


class AggregateMultiTenancyIsolation(Filter):
    """Refuse a host whose aggregates are for other tenants. A host without such aggregates passes.

    An aggregate is for the projects of all its keys that begin with ``filter_tenant_id``.
    """

    cost = 1

    def prepare(self, request: Request) -> Check | None:
        """Judge every request."""
        project = request.spec.project_id

        def check(host: HostState) -> Rejection | None:
            if not host.aggregates:
                return None
            keys = {key for each in host.aggregates for key in each.metadata}
            isolated = [key for key in keys if key.startswith(_PREFIX)]
            if not isolated or any(project in values_of(host, key) for key in isolated):
                return None
            return Rejection(f"its aggregates are for other tenants than {project or 'none'}")

        return check
