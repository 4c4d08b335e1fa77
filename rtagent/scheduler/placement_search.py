"""PlacementSearch: Placement's candidates for one call, and the allocations that it writes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import os_traits

from rtagent.conf.scheduler import SchedulerOptions
from rtagent.model.aggregate import Aggregate
from rtagent.model.claim import EVACUATION, LIVE_MIGRATION, MIGRATION, RESIZE
from rtagent.model.request_spec import RequestSpec
from rtagent.scheduler.claim_template import ClaimTemplate
from rtagent.scheduler.host_state import HostState
from rtagent.scheduler.placement_request import Query, candidates_query
from rtagent.scheduler.ports import (
    ADD,
    NEW,
    REPLACE,
    AllocationRequest,
    Candidate,
    Candidates,
    PlacementPort,
    Written,
)

#: By purpose. Before other moves than an evacuation, what the instance has at its source is given
#: to the migration. The source of an evacuation could not be asked, so it stays the instance's.
_EXISTING: Mapping[str, str] = {EVACUATION: ADD, RESIZE: NEW, MIGRATION: NEW, LIVE_MIGRATION: NEW}

#: From so many hosts on, hosts are queried one by one, as long as there are no more than `FEW`.
MANY, FEW = 100, 8
#: The names of the parameters of a query that the agents' reports can answer, too, and its
#: ``root_required``.
_PLAIN = frozenset(("resources", "root_required", "limit"))
_ENABLED = ("root_required", f"!{os_traits.COMPUTE_STATUS_DISABLED}")


class TooManyQueries(Exception):
    """`FEW` hosts were queried one by one, and another one is needed: all have to be queried."""


class PlacementSearch:
    """The candidates for the instances of one request.

    Placement searches all of its providers for a query of all hosts. In a large fleet, hosts are
    queried one by one, in the order in which they are tried, if the agents' reports
    nearly always show which of them have candidates.

    :ivar whole: all hosts were queried.
    :ivar version: the microversion of the documents of candidates.
    """

    def __init__(
        self,
        port: PlacementPort,
        options: SchedulerOptions,
        spec: RequestSpec,
        template: ClaimTemplate,
        hosts: Sequence[HostState],
        aggregates: Sequence[Aggregate],
        left: Callable[[], float],
    ) -> None:
        """Query nothing yet.

        :param left: returns the seconds until a query is late.
        :raises RtAgentError: as `candidates_query`.
        """
        self._port, self._spec, self._options = port, spec, options
        self._template, self._hosts, self._aggregates = template, hosts, aggregates
        self._left, self._by_host = left, dict[str, Sequence[Candidate]]()
        self._of_all = self._query(_only_host(spec, hosts))
        self.whole, self.version = False, ""

    def can_query_hosts(self, needed: int) -> bool:
        """Return whether hosts can be queried one by one. :param needed: how many are needed."""
        return (
            len(self._hosts) >= MANY
            and needed <= FEW
            # Traits, aggregates, trees and granular groups are for Placement to judge.
            and {name for name, _ in self._of_all} == _PLAIN
            and _ENABLED in self._of_all
            # So are units that other services count.
            and not self._template.needs_units
            and not any(_is_judged_elsewhere(host) for host in self._hosts)
        )

    def query_all(self) -> None:
        """Query all hosts that the request does not exclude."""
        found = self._ask(self._of_all)
        self._by_host = dict(found.by_host([host.uuid for host in self._hosts]))
        self.whole = True

    def knows(self, node_uuid: str) -> bool:
        """Return whether no query is needed for the candidates of a host."""
        return self.whole or node_uuid in self._by_host

    def of(self, node_uuid: str) -> Sequence[Candidate]:
        """Return the candidates of a host. Query it, unless that was done.

        :raises TooManyQueries:
        """
        if not self.knows(node_uuid):
            if len(self._by_host) >= FEW:
                raise TooManyQueries
            found = self._ask(self._query(node_uuid))
            self._by_host[node_uuid] = found.by_host([node_uuid]).get(node_uuid, ())
        return self._by_host.get(node_uuid, ())

    def _query(self, tree: str | None) -> Query:
        return candidates_query(self._spec, self._template, self._options, self._aggregates, tree)

    def _ask(self, query: Query) -> Candidates:
        answer = self._port.allocation_candidates(query, max(0.0, self._left()))
        self.version = answer.version
        return answer

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
                generation=self._spec.consumer_generation,
            )
        )


def _is_judged_elsewhere(host: HostState) -> bool:
    """Whether a report does not show that a host is full: its agent does not judge amounts, or it
    uses the disk of another tree, which a query of its own tree leaves out."""
    policy = host.replica.policy
    return not policy.judges_amounts or policy.placement.disk_provider is not None


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
