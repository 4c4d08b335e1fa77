"""SchedulingCall: what one call of the scheduler works with, Placement's candidates included."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack

import os_traits

from rtagent.conf.scheduler import SchedulerOptions
from rtagent.model.base import Value
from rtagent.model.claim import EVACUATION, LIVE_MIGRATION, MIGRATION, RESIZE
from rtagent.model.owners import main_claims
from rtagent.model.server import RequestSpec
from rtagent.ports import Clock
from rtagent.scheduler.claim_template import ClaimTemplate, claim_template
from rtagent.scheduler.errors import SchedulingTimedOut
from rtagent.scheduler.filter import Fit, Request
from rtagent.scheduler.filtering import HostFilters
from rtagent.scheduler.fits import CandidateFit, Fits
from rtagent.scheduler.host_manager import HostManager
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
from rtagent.scheduler.targets import joining, member_hosts, only_named
from rtagent.scheduler.weighing import HostWeighers

#: By purpose. Before other moves than an evacuation, what the instance has at its source is given
#: to the migration. The source of an evacuation could not be asked, so it stays the instance's.
_EXISTING: Mapping[str, str] = {EVACUATION: ADD, RESIZE: NEW, MIGRATION: NEW, LIVE_MIGRATION: NEW}

#: From so many hosts on, hosts are queried one by one, as long as there are no more than `FEW`.
MANY, FEW = 100, 8
#: The names of the parameters of a query that the agents' reports can answer, too, and its
#: ``root_required``.
PLAIN = frozenset(("resources", "root_required", "limit"))
ENABLED = ("root_required", f"!{os_traits.COMPUTE_STATUS_DISABLED}")


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
        parts: Parts,
        spec: RequestSpec,
        template: ClaimTemplate,
        hosts: Sequence[HostState],
        late: float,
        answers: ExitStack,
    ) -> None:
        """Query nothing yet.

        :param late: when a query is late, on the monotonic clock.
        :param answers: the context of Placement's answers.
        :raises RtAgentError: as `candidates_query`.
        """
        self._port, self._parts, self._spec = port, parts, spec
        self._template, self._hosts = template, hosts
        self._late, self._answers = late, answers
        self._aggregates = parts.manager.aggregates
        self._by_host = dict[str, Sequence[Candidate]]()
        self._of_all = self._query(only_named(spec, hosts))
        self.whole, self.version = False, ""

    def can_query_hosts(self, needed: int) -> bool:
        """Return whether hosts can be queried one by one. :param needed: how many are needed."""
        return (
            len(self._hosts) >= MANY
            and needed <= FEW
            # Traits, aggregates, trees and granular groups are for Placement to judge.
            and {"limit", *(name for name, _ in self._of_all)} == PLAIN
            and ENABLED in self._of_all
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
        options = self._parts.options
        return candidates_query(self._spec, self._template, options, self._aggregates, tree)

    def _ask(self, query: Query) -> Candidates:
        left = max(0.0, self._late - self._parts.clock.monotonic())
        asked = self._port.allocation_candidates(query, left)
        answer = self._answers.enter_context(asked)
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


#: The share of ``request_timeout`` after which a query does not wait any more, and none is sent for
#: alternates: its answer, and what follows it, would come too late.
WAIT = 0.5


class Parts(Value, frozen=True, kw_only=True):
    """What every call works with.

    :ivar assuming: a lock. Between the last look at a host and its assumed claim, no other call
        changes it.
    """

    manager: HostManager
    filters: HostFilters
    weighers: HostWeighers
    options: SchedulerOptions
    placement: PlacementPort | None
    clock: Clock
    fits: Fits
    assuming: threading.Lock

    @property
    def alive_since(self) -> float:
        """Hosts that were seen last before this time are down."""
        return self.clock.monotonic() - self.options.service_down_time


class SchedulingCall:
    """One call.

    :ivar hosts: as they were at the beginning or, if all were queried, after Placement's answer.
    :ivar placement: None: without Placement.
    :ivar fit: of the instances, by which a host is decided when it is consumed from.
    """

    def __init__(
        self,
        parts: Parts,
        spec: RequestSpec,
        instance_uuids: Sequence[str],
        began: float,
        answers: ExitStack,
        needed: int | None = None,
    ) -> None:
        """:param began: when the request came, on the monotonic clock.
        :param answers: the context of Placement's answers. It ends with the call.
        :param needed: how many hosts are needed, with alternates; None: all are queried.
        """
        self.parts, self.spec, self.instance_uuids = parts, spec, instance_uuids
        self._ends = began + parts.options.request_timeout
        self._late = began + WAIT * parts.options.request_timeout
        hosts = parts.manager.get_all_host_states()
        live = spec.purpose == LIVE_MIGRATION
        sizes = page_sizes_of(instance_uuids[0], hosts) if live else ()
        self.template = claim_template(spec, sizes)
        self.placement: PlacementSearch | None = None
        if parts.placement is not None:
            self.placement = PlacementSearch(
                parts.placement, parts, spec, self.template, hosts, self._late, answers
            )
            if needed is None or not self.placement.can_query_hosts(needed):
                self.placement.query_all()
        # Placement may have taken long: other calls have claimed something since.
        self.hosts = parts.manager.get_all_host_states()
        self.now, self._alive_since = parts.clock.now(), parts.alive_since
        self.fit = parts.fits.of_request(self.template, parts.manager.replica_for, self.now)
        self._searched = self.placement if self.placement and self.placement.whole else None
        self._fit: Fit = self.fit
        if self._searched is not None:
            self._fit = CandidateFit(self.fit, self.template, self._searched.of)

    @property
    def candidate_hosts(self) -> Sequence[HostState]:
        """The hosts for which Placement has candidates; all, if it was not queried for all."""
        if self._searched is None:
            return self.hosts
        return [host for host in self.hosts if self._searched.of(host.uuid)]

    def request(self, instance_uuid: str) -> Request:
        """Return the request of one instance, for filters and weighers."""
        request = Request(
            spec=self.spec,
            instance_uuid=instance_uuid,
            alive_since=self._alive_since,
            now=self.now,
            placement=self._searched is not None,
            fit=self._fit,
        )
        return joining(request, member_hosts(request, self.hosts))

    def own_claims(self, instance_uuid: str) -> list[str]:
        """Return the uuids of an instance's main claims, on hosts that the request does not
        ignore."""
        return [
            claim.uuid
            for host in self.hosts
            if instance_uuid in host.instances and host.host not in self.spec.ignore_hosts
            for claim in main_claims(host.instances[instance_uuid].claims)
        ]

    @property
    def is_late(self) -> bool:
        """Whether the answer of a query would come too late."""
        return self.parts.clock.monotonic() > self._late

    def check_deadline(self) -> None:
        """:raises SchedulingTimedOut: ``request_timeout`` has passed."""
        if self.parts.clock.monotonic() > self._ends:
            raise SchedulingTimedOut(seconds=self.parts.options.request_timeout)


def page_sizes_of(instance_uuid: str, hosts: Iterable[HostState]) -> tuple[int | None, ...]:
    """Return the page sizes of an instance, in KiB by guest cell; (): it is nowhere, or has no
    cells.
    """
    for host in hosts:
        if instance_uuid in host.instances:
            mains = main_claims(host.instances[instance_uuid].claims)
            if mains and mains[0].numa_topology is not None:
                return tuple(cell.pagesize for cell in mains[0].numa_topology.cells)
    return ()
