"""Filter the hosts for a request: the requested names first, then the enabled filters.

::

    filters = HostFilters.load(options)
    prepared = filters.prepare(request)
    filtered = prepared.filter(hosts)
    ...                                             # a host is selected, its new state is consumed
    prepared = prepared.next_instance(next_uuid, consumed)
    filtered = prepared.filter_again(hosts, {consumed.uuid})
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from functools import cached_property

from msgspec.structs import replace

from rtagent.conf.scheduler import FilterOptions
from rtagent.errors import RequestError
from rtagent.model.server import RequestSpec
from rtagent.scheduler import plugins, targets
from rtagent.scheduler.filter import Check, Filter, Rejection, Request, invalid
from rtagent.scheduler.filtered import KEPT, Defects, Filtered, NamedCheck, Refusal, Tally
from rtagent.scheduler.host_state import HostState

#: The group of the entry points of filters.
NAMESPACE = "rtagent.scheduler.filters"


class HostFilters:
    """The enabled filters, in the order in which they judge. :ivar options: theirs."""

    def __init__(self, filters: Iterable[Filter], options: FilterOptions) -> None:
        self._filters = tuple(sorted(filters, key=lambda each: each.cost))
        self.options = options
        self._defects = Defects()

    @classmethod
    def load(cls, options: FilterOptions) -> HostFilters:
        """Return the filters that ``enabled_filters`` names.

        :raises ConfigError: a filter is not installed, or cannot be loaded.
        """
        classes = plugins.load(NAMESPACE, options.enabled_filters, "enabled_filters")
        return cls([each(options) for each in classes], options)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the filters, in the order in which they judge."""
        return tuple(each.name for each in self._filters)

    def prepare(self, request: Request) -> RequestFilters:
        """Return the filters of one request, with everything computed that hosts have in common.

        :raises InvalidRequest: the request itself is wrong.
        """
        check_spec(request.spec)
        return RequestFilters(self._filters, self.options, request, self._defects)

    def get_filtered_hosts(
        self, hosts: Sequence[HostState], request: Request, *, every_verdict: bool = False
    ) -> Filtered:
        """Return the hosts that pass, see `RequestFilters.filter`."""
        return self.prepare(request).filter(hosts, every_verdict=every_verdict)


class RequestFilters:
    """The filters of one request for its next instance.

    Forced hosts skip the filters, unless the request has a destination.

    :raises InvalidRequest: the request itself is wrong.
    """

    def __init__(
        self, filters: Sequence[Filter], options: FilterOptions, request: Request, defects: Defects
    ) -> None:
        self.request = request
        self._options, self._defects = options, defects
        self._filters = () if targets.skips_filters(request.spec) else tuple(filters)

    def filter(self, hosts: Sequence[HostState], *, every_verdict: bool = False) -> Filtered:
        """Return the hosts that pass, and for some of the others why they do not.

        :param every_verdict: every filter judges every host, and every refusal is kept.
        """
        checks = [*targets.checks(self.request, self._options), *self._checks]
        tally = Tally(None if every_verdict else KEPT, self._defects)
        passed, made = list(hosts), list[Check]()
        for check in checks:
            if every_verdict:
                passing = {id(host) for host in tally.passing(check, hosts)}
                passed = [host for host in passed if id(host) in passing]
            elif check[1] not in made:  # several filters check whether the claim fits
                passed = tally.passing(check, passed)
                made.append(check[1])
        filtered = tally.filtered(passed, checks)
        return replace(filtered, unmatched=targets.unmatched(self.request.spec, hosts))

    def next_instance(self, instance_uuid: str, selected: HostState) -> RequestFilters:
        """Return the filters for the next instance of the request.

        :param instance_uuid: of the next instance. :param selected: the host that was selected for
            this one, so that it is a host of the server group now.
        """
        following = targets.following(self.request, instance_uuid, selected.host)
        again = [each for each in self._filters if each.every_instance]
        return RequestFilters(again, self._options, following, self._defects)

    def joining(self, hosts: Iterable[str]) -> RequestFilters:
        """Return the filters of the same instance, whose server group is on these hosts."""
        joined = targets.joining(self.request, hosts)
        return RequestFilters(self._filters, self._options, joined, self._defects)

    @cached_property
    def changing(self) -> list[NamedCheck]:
        """The checks that may refuse a host after further builds of the request there."""
        changing = {each.name for each in self._filters if each.every_instance}
        return [(name, check) for name, check in self._checks if name in changing]

    @cached_property
    def judges_every_host(self) -> bool:
        """Whether a filter judges all hosts again, not only the consumed one."""
        everywhere = {each.name for each in self._filters if each.every_host}
        return any(name in everywhere for name, _ in self._checks)

    def judge_again(self, host: HostState) -> Refusal | None:
        """Return why a consumed host does not pass for this instance; None: it passes."""
        tally = Tally(1, self._defects)
        for check in self._checks:
            if not tally.passing(check, (host,)):
                return tally.refusals[0]
        return None

    def filter_again(self, hosts: Iterable[HostState], consumed: Container[str]) -> Filtered:
        """Return the hosts that pass for this instance.

        :param hosts: those that passed for the instance before, a consumed one in its new state.
        :param consumed: the uuids of their nodes.
        """
        everywhere = {each.name for each in self._filters if each.every_host}
        tally = Tally(KEPT, self._defects)
        passed = list(hosts)
        for check in self._checks:
            if check[0] in everywhere:
                passed = tally.passing(check, passed)
                continue
            judged = [host for host in passed if host.uuid in consumed]
            refused = {id(host) for host in judged}
            refused -= {id(host) for host in tally.passing(check, judged)}
            if refused:
                passed = [host for host in passed if id(host) not in refused]
        return tally.filtered(passed, self._checks)

    @cached_property
    def _checks(self) -> list[NamedCheck]:
        checks = ((each.name, self._prepare(each)) for each in self._filters)
        return [(name, check) for name, check in checks if check is not None]

    def _prepare(self, filter_: Filter) -> Check | None:
        """Prepare a filter. If a defect prevents that, the filter refuses every host, because it
        cannot know which ones it would refuse.
        """
        try:
            return filter_.prepare(self.request)
        except RequestError:
            raise
        except Exception as error:
            self._defects.log(filter_.name, "a request", error)
            rejection = Rejection(f"it cannot judge the request: {type(error).__name__}: {error}")
            return lambda _host: rejection


def check_spec(spec: RequestSpec) -> None:
    """Check that the flavor has what the image needs, as Nova's API does.

    A flavor without a root disk leaves its size to the image, and a volume has a size of its own.

    :raises InvalidRequest: it has less, so that the guest would not boot anywhere.
    """
    flavor, image = spec.flavor, spec.image
    if flavor.memory_mb < image.min_ram:
        message = f"must be at least the min_ram of the image, {image.min_ram}"
        raise invalid(".flavor.memory_mb", message)
    if flavor.root_gb and flavor.root_gb < image.min_disk and not spec.is_bfv:
        message = f"must be at least the min_disk of the image, {image.min_disk}"
        raise invalid(".flavor.root_gb", message)
