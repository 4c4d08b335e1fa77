"""SchedulingCall: what one call of the scheduler works with."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence

from rtagent.conf.scheduler import SchedulerOptions
from rtagent.model.base import Value
from rtagent.model.claim import LIVE_MIGRATION
from rtagent.model.owners import main_claims
from rtagent.model.request_spec import RequestSpec
from rtagent.ports import Clock
from rtagent.scheduler.claim_template import claim_template
from rtagent.scheduler.errors import SchedulingTimedOut
from rtagent.scheduler.filter import Fit, Request
from rtagent.scheduler.filtering import HostFilters
from rtagent.scheduler.fits import CandidateFit, Fits
from rtagent.scheduler.host_state import HostState
from rtagent.scheduler.placement_search import PlacementSearch
from rtagent.scheduler.ports import Hosts, PlacementPort
from rtagent.scheduler.targets import joining, member_hosts
from rtagent.scheduler.weighing import HostWeighers

#: The share of ``request_timeout`` after which a query does not wait any more, and none is sent for
#: alternates: its answer, and what follows it, would come too late.
WAIT = 0.5


class Parts(Value, frozen=True, kw_only=True):
    """What every call works with.

    :ivar assuming: a lock. Between the last look at a host and its assumed claim, no other call
        changes it.
    """

    manager: Hosts
    filters: HostFilters
    weighers: HostWeighers
    options: SchedulerOptions
    placement: PlacementPort | None
    clock: Clock
    fits: Fits
    assuming: threading.Lock


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
        needed: int | None = None,
    ) -> None:
        """:param began: when the request came, on the monotonic clock.
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
                parts.placement,
                parts.options,
                spec,
                self.template,
                hosts,
                parts.manager.aggregates,
                lambda: self._late - parts.clock.monotonic(),
            )
            if needed is None or not self.placement.can_query_hosts(needed):
                self.placement.query_all()
        # Placement may have taken long: other calls have claimed something since.
        self.hosts = parts.manager.get_all_host_states()
        self.now, self._read_at = parts.clock.now(), parts.clock.monotonic()
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
            alive_since=self._read_at - self.parts.options.service_down_time,
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
