"""Selecting: one call of `select_destinations`. Claims are assumed instance by instance."""

import itertools
import uuid
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property

from msgspec.structs import replace

from rtagent.errors import NodeNotFound, PlacementConflict, PlacementError
from rtagent.model.claim import BUILD, Claim
from rtagent.model.request import Limits
from rtagent.model.server import Selection, Selections
from rtagent.scheduler.decision_log import Comparison
from rtagent.scheduler.filter import Rejection, Request, Verdict
from rtagent.scheduler.filtered import FIT, NO_CANDIDATE, PLACEMENT, Refusals
from rtagent.scheduler.fits import owned
from rtagent.scheduler.host_state import HostState, with_capacity
from rtagent.scheduler.ports import Candidate, Written
from rtagent.scheduler.scheduling_call import SchedulingCall, TooManyQueries
from rtagent.scheduler.targets import member_hosts
from rtagent.scheduler.weighing import Weighed, WeighedHosts


class Search:
    """The hosts that pass the filters for one instance after the other. Each host is judged once,
    unless a claim is assumed there.

    :ivar filters: of the current instance. :ivar refusals: of the hosts that do not pass.
    """

    def __init__(self, call: SchedulingCall) -> None:
        self._weighers, self._plain = call.parts.weighers, call.template.plain
        self.filters = call.parts.filters.prepare(call.request(call.instance_uuids[0]))
        hosts = call.candidate_hosts
        self.refusals = Refusals(len(call.hosts))
        if len(hosts) < len(call.hosts):
            candidates = {host.uuid for host in hosts}
            without = [host for host in call.hosts if host.uuid not in candidates]
            self.refusals.without_candidates(without)
        filtered = self.filters.filter(hosts)
        self.refusals.filtered(filtered)
        self._passing = self._with_capacity(filtered.hosts)

    @property
    def request(self) -> Request:
        """The request of the current instance."""
        return self.filters.request

    @cached_property
    def weighed(self) -> WeighedHosts:
        """The hosts that pass, weighed once: after a selection only its host is weighed again."""
        return self._weighers.weigh(self._passing, self.request)

    def best_first(self) -> Iterator[Weighed]:
        """Yield the hosts that pass, in the order in which to try them."""
        return self._weighers.in_order(self.weighed)

    def refuse(self, refused: Collection[str]) -> None:
        """Take hosts out of those that pass. :param refused: their uuids."""
        self.weighed.keep([host for host in self.weighed.hosts if host.uuid not in refused])

    def join(self, hosts: Collection[str]) -> None:
        """Judge again, because other calls have put members of the affinity group on hosts."""
        weighed = self.weighed
        self.filters = self.filters.joining(hosts)
        filtered = self.filters.filter_again(weighed.hosts, ())
        self.refusals.filtered(filtered)
        weighed.keep(filtered.hosts)

    def next_instance(self, instance_uuid: str, consumed: HostState) -> None:
        """Go on to the next instance.

        :param consumed: the host on which the claim of the current instance was assumed.
        """
        weighed = self.weighed
        self.filters = self.filters.next_instance(instance_uuid, consumed)
        weighed.replace(consumed, self.request)
        if self.filters.judges_every_host:
            filtered = self.filters.filter_again(weighed.hosts, {consumed.uuid})
            self.refusals.filtered(filtered)
            weighed.keep(filtered.hosts)
        else:
            refusal = self.filters.judge_again(consumed)
            if refusal is not None:
                self.refusals.refused(consumed, refusal.rejection, refusal.filter)
                weighed.remove(consumed.uuid)
        if consumed.uuid in weighed and not self._with_capacity([consumed]):
            weighed.remove(consumed.uuid)

    def _with_capacity(self, hosts: Sequence[HostState]) -> Sequence[HostState]:
        """Return the hosts that have enough for a plain request; all, if it is not plain."""
        plain, fit, owner = self._plain, self.request.fit, self.request.instance_uuid
        if plain is None or fit is None:
            return hosts
        wanted = plain.vcpus, plain.pcpus, plain.memory_mb, plain.disk_mb
        passing = with_capacity(hosts, *wanted)
        if len(passing) == len(hosts):
            return passing
        full = list[HostState]()
        for host in hosts:
            if host.fits(*wanted):
                continue
            if owner not in host.instance_uuids:
                full.append(host)
            elif isinstance(verdict := fit(host, owner), Rejection):
                self.refusals.refused(host, verdict)
            else:  # the instance reuses its resources there
                passing.append(host)
        self.refusals.add_full(full, plain, lambda host: fit(host, owner))
        return passing


_GONE = Rejection("the host is not known any more")
_JOINS = Rejection("the server group has hosts now")
#: How often the best host of an instance is looked for again, because the one before has changed.
RESTARTS = 3
#: How many candidates of one host are given up after Placement has refused to write them: others
#: may have taken what all of them need.
MAX_CONFLICTS = 16


class Selecting:
    """One call.

    :param writes: allocations are written to Placement.
    :ivar assumed: operation ids of the claims that it has assumed.
    :ivar written: the allocations that it has written.
    :ivar comparisons: of the selected hosts with others, by instance.
    :ivar refusals: the hosts that were refused.
    """

    def __init__(self, call: SchedulingCall, *, writes: bool) -> None:
        self._call, self._writes = call, writes
        self.assumed: list[str] = []
        self.written: list[Written] = []
        self.comparisons: dict[str, Comparison] = {}
        self._search = Search(call)
        self.refusals = self._search.refusals
        self._group_hosts = frozenset[str]()

    def select(self, *, alternates: bool) -> tuple[Selections, ...]:
        """Select a host for each instance.

        :raises NoValidHost: an instance finds no host. The claims assumed for others remain.
        :raises SchedulingTimedOut: also if the last instance has its host, but too late.
        """
        number = self._call.parts.options.max_attempts - 1 if alternates else 0
        # Of one instance, other hosts stay what they were before it was selected.
        ends = not number or len(self._call.instance_uuids) == 1
        selected = [*self._selected(ends=ends)]
        # One more, because an instance's own host is not among its alternates.
        others = self._alternates(number + 1) if number else ()
        self._call.check_deadline()
        if len(selected) == 1:
            self._compare_with([host for host, _ in others])
        return tuple(
            Selections(
                instance_uuid=instance_uuid,
                selected=selection,
                alternates=tuple(
                    self._selection(host, new_uuid(), candidate)
                    for host, candidate in others
                    if host.uuid != selection.provider_uuid
                )[:number],
            )
            for instance_uuid, selection in selected
        )

    def _compare_with(self, alternates: Iterable[HostState]) -> None:
        """Add the alternates of the only instance to its comparison."""
        [(instance_uuid, comparison)] = self.comparisons.items()
        known = {comparison.selected.node_uuid, *(host.node_uuid for host in comparison.others)}
        weighed = self._search.weighed
        more = [weighed.contender(host) for host in alternates if host.uuid not in known]
        others = (*comparison.others, *more)
        self.comparisons[instance_uuid] = replace(comparison, others=others)

    def _selected(self, *, ends: bool) -> Iterator[tuple[str, Selection]]:
        """:param ends: the search ends with the last instance."""
        uuids = self._call.instance_uuids
        for instance_uuid, following in zip(uuids, (*uuids[1:], None), strict=True):
            after, selection = self._select(instance_uuid)
            if following is not None or not ends:
                self._search.next_instance(following or instance_uuid, after)
            yield instance_uuid, selection

    def _select(self, instance_uuid: str) -> tuple[HostState, Selection]:
        refused, restarts = set[str](), RESTARTS
        order = self._search.best_first()
        while (each := next(order, None)) is not None:
            self._call.check_deadline()
            if each.host.uuid in refused:
                continue
            if restarts and self._changed_meanwhile(each.host, instance_uuid):
                restarts, order = restarts - 1, self._search.best_first()
                continue
            found = self._try(each, instance_uuid)
            if not isinstance(found, Rejection):
                comparison = self._search.weighed.compare(each.host, refused)
                self.comparisons[instance_uuid] = comparison
                self._search.refuse(refused)
                return found
            if found is _JOINS:
                self._search.join(self._group_hosts)
                order = self._search.best_first()
                continue
            by = PLACEMENT if found is NO_CANDIDATE else FIT
            self.refusals.refused(each.host, found, by)
            refused.add(each.host.uuid)
        raise self.refusals.error(self._call.own_claims(instance_uuid))

    def _changed_meanwhile(self, host: HostState, instance_uuid: str) -> bool:
        """Query a host, and weigh it again if it has changed since it was weighed: requests that
        wait for Placement at the same time would prefer the same host. Return whether it has.
        """
        if self._knows(host):
            return False
        self._candidates(host, instance_uuid)
        current = self._call.parts.manager.get_host_state(host.uuid)
        if current is None or current.version == host.version:
            return False
        if self._search.filters.judge_again(current) is None:
            self._search.weighed.replace(current)
            return True
        return False  # it is refused when it is tried

    def _try(self, weighed: Weighed, instance_uuid: str) -> tuple[HostState, Selection] | Rejection:
        """Claim a host for an instance, with the first candidate that fits."""
        operation_id, host = new_uuid(), weighed.host
        candidates = self._candidates(host, instance_uuid)
        if isinstance(candidates, Rejection):
            return candidates
        self._call.check_deadline()  # a query may have taken long
        rejection, conflicts = NO_CANDIDATE, 0
        for candidate in candidates:
            try:
                after = self._claim(host, instance_uuid, operation_id, candidate)
            except PlacementConflict as error:
                rejection, conflicts = Rejection(f"Placement: {error.message}"), conflicts + 1
                if conflicts == MAX_CONFLICTS:
                    break
                continue
            if isinstance(after, HostState):
                return after, self._selection(after, operation_id, candidate)
            rejection = after
        return rejection

    def _claim(
        self, host: HostState, instance_uuid: str, operation_id: str, candidate: Candidate | None
    ) -> HostState | Rejection:
        """Assume the claim of an instance, and write its allocations.

        :raises PlacementConflict: they are not available any more.
        """
        after = self._assume(host, instance_uuid, operation_id, candidate)
        if isinstance(after, Rejection) or candidate is None or not self._writes:
            return after
        assert self._call.placement is not None, "there is a candidate"
        try:
            self.written.append(self._call.placement.write(instance_uuid, candidate))
        except PlacementConflict:
            self._call.parts.manager.forget_claim(operation_id)
            raise
        return after

    def _assume(
        self, host: HostState, instance_uuid: str, operation_id: str, candidate: Candidate | None
    ) -> HostState | Rejection:
        """Assume the claim of an instance on a host, if it fits the host as it is now."""
        manager = self._call.parts.manager
        with self._call.parts.assuming:
            current = manager.get_host_state(host.uuid)
            if current is None:
                return _GONE
            if joined := member_hosts(self._search.request, manager.get_all_host_states()):
                self._group_hosts = joined
                return _JOINS
            changed = current.version != host.version
            if changed and (refusal := self._search.filters.judge_again(current)) is not None:
                return refusal.rejection
            verdict = self._verdict(current, instance_uuid, candidate)
            if isinstance(verdict, Rejection):
                return verdict
            claim = owned(verdict, self._call.template, instance_uuid, operation_id, self._call.now)
            self.assumed.append(operation_id)
            try:
                return manager.assume(current.uuid, claim, here=self._call.template.kind == BUILD)
            except NodeNotFound:
                return _GONE

    def _alternates(self, number: int) -> Sequence[tuple[HostState, Candidate | None]]:
        """Return this many more hosts that fit, best first; fewer if Placement refuses or fails a
        query, or after too many queries."""
        found: list[tuple[HostState, Candidate | None]] = []
        with suppress(PlacementError, TooManyQueries):  # the selection stands without them
            for each in self._search.best_first():
                if self._call.is_late and not self._knows(each.host):
                    break
                fitting = itertools.islice(self._fitting(each.host), 1)
                found += ((each.host, candidate) for candidate in fitting)
                if len(found) == number:
                    break
        return found

    def _knows(self, host: HostState) -> bool:
        """Whether no query is needed for the candidates of a host."""
        return self._call.placement is None or self._call.placement.knows(host.uuid)

    def _fitting(self, host: HostState) -> Iterator[Candidate | None]:
        owner_id = self._call.instance_uuids[-1]
        self._call.check_deadline()
        candidates = self._candidates(host, owner_id)
        if isinstance(candidates, Rejection):
            return
        for each in candidates:
            if isinstance(self._verdict(host, owner_id, each), Claim):
                yield each

    def _verdict(self, host: HostState, owner_id: str, candidate: Candidate | None) -> Verdict:
        fit = self._call.fit
        return fit(host, owner_id) if candidate is None else fit.decide(host, owner_id, candidate)

    def _candidates(self, host: HostState, owner_id: str) -> Sequence[Candidate | None] | Rejection:
        """Return the candidates of a host: one that is None, without Placement. Or return why none
        is tried.
        """
        placement = self._call.placement
        if placement is None:
            return [None]
        if not placement.whole:  # a query is spared if the host is known to be full
            verdict = self._call.fit(host, owner_id)
            if isinstance(verdict, Rejection):
                return verdict
        return placement.of(host.uuid)

    def _selection(
        self, host: HostState, operation_id: str, candidate: Candidate | None
    ) -> Selection:
        selection = Selection(
            host=host.host,
            nodename=host.nodename,
            provider_uuid=host.uuid,
            operation_id=operation_id,
            limits=self._call.template.build.limits or Limits(),
        )
        if candidate is None or self._call.placement is None:
            return selection
        return replace(
            selection,
            allocation_request=candidate.request,
            allocation_request_version=self._call.placement.version,
            allocations=candidate.allocations,
            provider_mapping=candidate.provider_mapping,
        )


def new_uuid() -> str:
    """Return a new operation id."""
    return str(uuid.uuid4())
