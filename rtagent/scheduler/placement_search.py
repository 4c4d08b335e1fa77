"""PlacementSearch: Placement's candidates for one call, and the allocations that it writes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rtagent.model.aggregate import Aggregate
from rtagent.model.claim import EVACUATION, LIVE_MIGRATION, MIGRATION, RESIZE
from rtagent.model.request_spec import RequestSpec
from rtagent.scheduler.candidate import Candidate
from rtagent.scheduler.claim_template import ClaimTemplate
from rtagent.scheduler.host_state import HostState
from rtagent.scheduler.options import SchedulerOptions
from rtagent.scheduler.placement_request import candidates_query
from rtagent.scheduler.ports import (
    ADD,
    NEW,
    REPLACE,
    AllocationRequest,
    PlacementPort,
    Written,
)

#: By purpose. Before other moves than an evacuation, what the instance has at its source is given
#: to the migration. The source of an evacuation could not be asked, so it stays the instance's.
_EXISTING: Mapping[str, str] = {EVACUATION: ADD, RESIZE: NEW, MIGRATION: NEW, LIVE_MIGRATION: NEW}

#: The share of ``request_timeout`` after which a query is not sent any more: its answer, and what
#: follows it, would come too late.
WAIT = 0.5


class PlacementSearch:
    """The candidates for the instances of one request.

    :ivar candidates: by node uuid.
    :ivar version: the microversion of their documents.
    """

    def __init__(
        self,
        port: PlacementPort,
        options: SchedulerOptions,
        spec: RequestSpec,
        template: ClaimTemplate,
        hosts: Sequence[HostState],
        aggregates: Sequence[Aggregate],
    ) -> None:
        self._port, self._spec = port, spec
        tree = _only_host(spec, hosts)
        query = candidates_query(spec, template, options, aggregates, tree)
        answer = port.allocation_candidates(query, WAIT * options.request_timeout)
        self.candidates = answer.by_host([host.uuid for host in hosts])
        self.version = answer.version

    def write(self, instance_uuid: str, candidate: Candidate) -> Written:
        """Write the allocations of a candidate.

        :raises PlacementConflict: they are not available any more.
        """
        return self._port.write(
            AllocationRequest(
                consumer_uuid=instance_uuid,
                allocations=candidate.request["allocations"],
                mappings=candidate.request.get("mappings", {}),
                project_id=self._spec.project_id,
                user_id=self._spec.user_id,
                existing=_EXISTING.get(self._spec.purpose, REPLACE),
            )
        )


def _only_host(spec: RequestSpec, hosts: Iterable[HostState]) -> str | None:
    """Return the node that the request names, if it is one; None: Placement searches all."""
    destination = spec.requested_destination
    if destination is not None and (destination.host or destination.node):
        wanted = (
            host
            for host in hosts
            if destination.host in (None, host.host) and destination.node in (None, host.nodename)
        )
    elif spec.force_hosts or spec.force_nodes:
        names = {name.lower() for name in spec.force_hosts}
        wanted = (
            host
            for host in hosts
            if (not names or host.host.lower() in names)
            and (not spec.force_nodes or host.nodename in spec.force_nodes)
        )
    else:
        return None
    found = [host.uuid for host in wanted]
    return found[0] if len(found) == 1 else None
