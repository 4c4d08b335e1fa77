"""Filters by what a host is and has: service, metrics, instances, and whether a claim fits it."""

from typing import ClassVar

from rtagent.allocation.requirements import numa_of
from rtagent.model.base import Value
from rtagent.pci.requests import EXTRA_SPEC
from rtagent.scheduler.filter import Check, Filter, Rejection, Request
from rtagent.scheduler.filters.aggregates import limit_of
from rtagent.scheduler.fits import fit_check
from rtagent.scheduler.host_state import HostState


class AllHostsFilter(Filter):
    """Refuse no host."""

    def prepare(self, request: Request) -> Check | None:
        """Judge nothing."""
        return None


class ComputeFilter(Filter):
    """Refuse a host that drains, or grants no claims, or whose service is disabled, forced down or
    silent.
    """

    def prepare(self, request: Request) -> Check | None:
        """Judge every request."""
        alive_since = request.alive_since

        def check(host: HostState) -> Rejection | None:
            service, late = host.service, alive_since - host.seen
            if service.disabled:
                reason = service.disabled_reason
                return Rejection(f"its service is disabled{f': {reason}' if reason else ''}")
            if service.forced_down:
                return Rejection("its service is forced down")
            if service.draining is not None:
                reason = service.draining
                return Rejection(f"it is being drained{f': {reason}' if reason else ''}")
            if late > 0:
                when = f"{late:.1f} s before the oldest that counts"
                return Rejection(f"its agent is down: its last report came {when}")
            if host.up:
                return None
            return Rejection(f"its agent grants no claims: {host.why_not or 'it does not say why'}")

        return check


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


class IsolatedHostsFilter(Filter):
    """Refuse other hosts to isolated images and, if
    ``restrict_isolated_hosts_to_isolated_images``, isolated hosts to other images.
    """

    def prepare(self, request: Request) -> Check | None:
        """Judge requests unless the options isolate nothing for this image."""
        options = self.options
        hosts = frozenset(options.isolated_hosts)
        if request.spec.image.id in options.isolated_images:
            other = Rejection("the image is isolated, and this is not one of isolated_hosts")
            return lambda host: None if host.host in hosts else other
        if not hosts or not options.restrict_isolated_hosts_to_isolated_images:
            return None
        other = Rejection("the host is isolated, and the image is not one of isolated_images")
        return lambda host: other if host.host in hosts else None


class _LimitFilter(Filter):
    """Refuse a host that has as many of something as allowed, or more.

    :ivar key: the option, and the key in the metadata of aggregates.
    :ivar field: of the host, with the number. :ivar counts_guests: every guest adds to it, also one
        that only runs.
    :ivar what: the number counts. :ivar by_aggregates: the metadata of the host's aggregates come
        before the option.
    """

    every_instance = True
    key: ClassVar[str]
    field: ClassVar[str]
    what: ClassVar[str]
    counts_guests: ClassVar[bool] = True
    by_aggregates: ClassVar[bool] = False

    def limit_on(self, host: HostState) -> int | Rejection:
        """The limit of a host."""
        limit: int = getattr(self.options, self.key)
        return limit_of(host, self.key, limit) if self.by_aggregates else limit

    def prepare(self, request: Request) -> Check | None:
        """Judge every request."""
        return _LimitCheck(self)


class _LimitCheck(Value, frozen=True):
    """The check of a limit."""

    filter: _LimitFilter

    def __call__(self, host: HostState) -> Rejection | None:
        return self.after(host, 0)

    def after(self, host: HostState, builds: int) -> Rejection | None:
        """Judge the host as it is after further builds."""
        limit = self.filter.limit_on(host)
        if isinstance(limit, Rejection):
            return limit
        number = getattr(host, self.filter.field) + builds * self.filter.counts_guests
        if number < limit:
            return None
        return Rejection(f"it has {number} {self.filter.what}, of {limit} at most")


class NumInstancesFilter(_LimitFilter):
    """Refuse a host with ``max_instances_per_host`` instances or more."""

    key, field, what = "max_instances_per_host", "num_instances", "instances"


class AggregateNumInstancesFilter(NumInstancesFilter):
    """As NumInstancesFilter; the metadata of the host's aggregates come before the option."""

    cost, by_aggregates = 1, True


class IoOpsFilter(_LimitFilter):
    """Refuse a host with ``max_io_ops_per_host`` instances that do much I/O, or more."""

    key, field, what = "max_io_ops_per_host", "num_io_ops", "instances that do much I/O"
    counts_guests = False


class AggregateIoOpsFilter(IoOpsFilter):
    """As IoOpsFilter; the metadata of the host's aggregates come before the option."""

    cost, by_aggregates = 1, True


class NUMATopologyFilter(Filter):
    """Refuse a host that the claim of a guest with NUMA cells does not fit.

    The agents' own rule decides, with everything else that the claim needs, so that cells and
    devices are chosen together.
    """

    cost = 2
    every_instance = True

    def prepare(self, request: Request) -> Check | None:
        """Judge guests with cells: pinned, with page sizes, with persistent memory, for example."""
        required = numa_of(request.spec.flavor, request.spec.image.properties)
        return fit_check(request) if required.cells else None


class PciPassthroughFilter(Filter):
    """Refuse a host that the claim of a guest with PCI devices does not fit.

    The agents' own rule decides, with the host's own aliases.
    """

    cost = 2
    every_instance = True

    def prepare(self, request: Request) -> Check | None:
        """Judge guests with devices of an alias or of a port."""
        asked = request.spec.pci_requests or request.spec.flavor.extra_specs.get(EXTRA_SPEC)
        return fit_check(request) if asked else None
