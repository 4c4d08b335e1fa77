"""SchedulingCall: what one call of the scheduler works with."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence

from rtagent.model.base import Value
from rtagent.model.claim import LIVE_MIGRATION
from rtagent.model.owners import main_claims
from rtagent.model.request_spec import RequestSpec
from rtagent.ports import Clock
from rtagent.scheduler.claim_template import claim_template
from rtagent.scheduler.errors import SchedulingTimedOut
from rtagent.scheduler.filtering import HostFilters
from rtagent.scheduler.fits import CandidateFit, Fits
from rtagent.scheduler.host_state import HostState
from rtagent.scheduler.options import SchedulerOptions
from rtagent.scheduler.placement_search import PlacementSearch
from rtagent.scheduler.ports import Hosts, PlacementPort
from rtagent.scheduler.request import Request
from rtagent.scheduler.verdict import Fit
from rtagent.scheduler.weighing import HostWeighers


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

    :ivar hosts: as they were after Placement had answered.
    :ivar placement: None: without Placement.
    :ivar fit: of the instances, by which a host is decided when it is consumed from.
    """

    def __init__(self, parts: Parts, spec: RequestSpec, instance_uuids: Sequence[str]) -> None:
        self.parts, self.spec, self.instance_uuids = parts, spec, instance_uuids
        self._began = parts.clock.monotonic()
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
            )
        # Placement may have taken long: other calls have claimed something since.
        self.hosts = parts.manager.get_all_host_states()
        self.now, self._read_at = parts.clock.now(), parts.clock.monotonic()
        self.fit = parts.fits.of_request(self.template, parts.manager.replica_for, self.now)
        self._fit: Fit = self.fit
        if self.placement is not None:
            self._fit = CandidateFit(self.fit, self.template, self.placement.candidates)

    @property
    def candidate_hosts(self) -> Sequence[HostState]:
        """The hosts for which Placement has candidates; all, without Placement."""
        if self.placement is None:
            return self.hosts
        candidates = self.placement.candidates
        return [host for host in self.hosts if host.uuid in candidates]

    def request(self, instance_uuid: str) -> Request:
        """Return the request of one instance, for filters and weighers."""
        return Request(
            spec=self.spec,
            instance_uuid=instance_uuid,
            alive_since=self._read_at - self.parts.options.service_down_time,
            now=self.now,
            placement=self.placement is not None,
            fit=self._fit,
        )

    def own_claims(self, instance_uuid: str) -> list[str]:
        """Return the uuids of an instance's main claims, on hosts that the request does not
        ignore."""
        return [
            claim.uuid
            for host in self.hosts
            if instance_uuid in host.instances and host.host not in self.spec.ignore_hosts
            for claim in main_claims(host.instances[instance_uuid].claims)
        ]

    def check_deadline(self) -> None:
        """:raises SchedulingTimedOut: ``request_timeout`` has passed."""
        seconds = self.parts.options.request_timeout
        if self.parts.clock.monotonic() > self._began + seconds:
            raise SchedulingTimedOut(seconds=seconds)


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
