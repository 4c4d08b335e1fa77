"""The fleet as capacity is counted on it, and advice on it: the hosts of the scheduler's view,
judged by its filters as for a selection.

Nothing is locked, assumed or written, and Placement is not asked.
"""

import contextlib
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime

from msgspec.structs import replace

from rtagent.capacity.advice import Advice, advise
from rtagent.capacity.fleet import HostCount, JudgedHost
from rtagent.capacity.guest_moves import Guest
from rtagent.capacity.move_search import Destinations
from rtagent.capacity.room import Room, decide, judged, nothing, room
from rtagent.errors import RequestError, RtAgentError
from rtagent.model.base import Value
from rtagent.model.claim import BUILD
from rtagent.model.decision import Granted
from rtagent.model.migration import MigrationType
from rtagent.model.node_state import NodeState
from rtagent.model.request import Limits
from rtagent.model.server import ACTIVE, RequestSpec
from rtagent.scheduler.aggregate_rules import ZONE
from rtagent.scheduler.claim_template import (
    NO_OWNER,
    ClaimTemplate,
    claim_template,
    kind_of,
    spec_of,
)
from rtagent.scheduler.filter import Rejection, Request, invalid
from rtagent.scheduler.filtered import FIT, PLACEMENT, NamedCheck, refusal_of
from rtagent.scheduler.fits import ReplicaFor, RequirementsOf
from rtagent.scheduler.host_state import HostState, replica_fields
from rtagent.scheduler.placement_request import ENCRYPTION, MEMBER_OF, candidates_query
from rtagent.scheduler.scheduling_call import ENABLED, PLAIN, Parts
from rtagent.scheduler.targets import AGENT, granting_none

_OUTSIDE = Rejection("the host is not in the aggregates in which candidates are searched")
#: The time of the builds. It decides nothing.
_TIME = datetime(2000, 1, 1, tzinfo=UTC)


def fleet_hosts(
    hosts: Sequence[HostState], request: Request, parts: Parts, member_of: Sequence[str]
) -> Iterator[JudgedHost]:
    """Yield the hosts, in this order.

    All that refuses a host is judged but the fit of the claim, which `room` decides.

    :param request: of any instance, which is on no host.
    :param member_of: the aggregates in which Placement searches, see `AskedOfPlacement`.
    :raises InvalidRequest: the request itself is wrong.
    """
    request = replace(request, fit=None)
    filtered = parts.filters.get_filtered_hosts(hosts, request, every_verdict=True)
    refusals = {refusal.uuid: refusal for refusal in reversed(filtered.refusals)}
    for host in hosts:
        refusal = refusals.get(host.uuid)
        if refusal is None and (refused := granting_none(host)) is not None:
            refusal = refusal_of(host, refused, AGENT)
        if refusal is None and _not_member(host, member_of):
            refusal = refusal_of(host, _OUTSIDE, PLACEMENT)
        yield JudgedHost(
            host=host.host,
            nodename=host.nodename,
            uuid=host.uuid,
            state=judged(host.replica),
            zones=host.metadata(ZONE),
            refused="" if refusal is None else f"{refusal.filter}: {refusal.rejection.message}",
            instances=host.instances,
            own_state=_own_state(host, parts.manager.replica_for),
        )


def _own_state(host: HostState, replica_for: ReplicaFor) -> Callable[[NodeState, str], NodeState]:
    return lambda state, owner_id: replica_for(replace(host, replica=state), owner_id)


class Ask(Value, frozen=True, kw_only=True):
    """One flavor of which the room is asked: a request, and the template of its claims."""

    spec: RequestSpec
    template: ClaimTemplate


def ask(spec: RequestSpec) -> Ask:
    """Return a request as one of which room is counted.

    :raises InvalidFlavor: the flavor and the image describe no valid guest on any host.
    :raises InvalidRequest: the request is a move, or its instances are those of a group.
    """
    if kind_of(spec) != BUILD:
        raise invalid(".purpose", "must be build: room is the number of further builds")
    if spec.instance_group is not None:
        rule = "must be left out: the hosts of a group depend on its members, and room has none"
        raise invalid(".instance_group", rule)
    template = claim_template(spec)
    instance = replace(template.build.instance, vm_state=ACTIVE)  # each build is finished
    return Ask(
        spec=spec, template=replace(template, build=replace(template.build, instance=instance))
    )


class AskedOfPlacement(Value, frozen=True, kw_only=True):
    """What the query of Placement for a request has, beside what agents decide on.

    :ivar undecided: only Placement decides on it; "": nothing. :ivar units: other services may
        offer these units, too; "": none. :ivar member_of: as in the query.
    """

    undecided: str = ""
    units: str = ""
    member_of: tuple[str, ...] = ()


def asked_of_placement(asked: Ask, parts: Parts) -> AskedOfPlacement:
    """Return what is asked of Placement, if the scheduler uses it. Devices and contexts of
    encrypted memory are those of the agents, there as here.

    :raises RtAgentError: no host can be selected for the request.
    """
    if parts.placement is None:
        return AskedOfPlacement()
    options = replace(parts.options, pci_in_placement=False)
    query = candidates_query(asked.spec, asked.template, options, parts.manager.aggregates)
    judged_here = (("group_policy", "none"), ENABLED)
    others = [
        f"{name}={value}"
        for name, value in query
        if (name, value) not in judged_here
        and (name not in (*PLAIN, MEMBER_OF) or name == ENABLED[0])
        and not name.endswith(ENCRYPTION)
    ]
    return AskedOfPlacement(
        undecided=", ".join(others),
        units=f"resources={dict(query)['resources']}" if asked.template.needs_units else "",
        member_of=tuple(value for name, value in query if name == MEMBER_OF),
    )


def _not_member(host: HostState, member_of: Sequence[str]) -> bool:
    """Return whether a host is in none of the aggregates, or in a forbidden one."""
    has = {aggregate.uuid for aggregate in host.aggregates}
    for each in member_of:
        uuids = each.removeprefix("!").removeprefix("in:").split(",")
        if has.isdisjoint(uuids) is not each.startswith("!"):
            return True
    return False


class Counting:
    """Counts the room of one request on one host after the other.

    :ivar request: for filters. :ivar changing: the checks that builds may change.
    :param pause: called between decisions.
    :param member_of: the aggregates in which Placement searches.
    """

    def __init__(
        self,
        asked: Ask,
        parts: Parts,
        pause: Callable[[], None] = nothing,
        member_of: Sequence[str] = (),
    ) -> None:
        """:raises InvalidRequest: the request itself is wrong."""
        self._asked, self._parts = asked, parts
        self._pause, self._member_of = pause, member_of
        self.request = Request(
            spec=asked.spec, instance_uuid=NO_OWNER, alive_since=parts.alive_since, now=_TIME
        )
        self.changing = parts.filters.prepare(self.request).changing
        self._required = RequirementsOf(asked.template.build)

    def counts(self, hosts: Sequence[HostState]) -> Iterator[HostCount]:
        """Yield the count of each host."""
        default_zone = self._parts.filters.options.default_availability_zone
        judged_hosts = fleet_hosts(hosts, self.request, self._parts, self._member_of)
        for host, fleet_host in zip(hosts, judged_hosts, strict=True):
            self._pause()
            yield replace(
                self._count(host, fleet_host),
                zones=tuple(sorted(host.metadata(ZONE) or {default_zone})),
                aggregates=tuple(each.name for each in host.aggregates),
                judged=host.judges_amounts,
            )

    def _count(self, host: HostState, fleet_host: JudgedHost) -> HostCount:
        count = HostCount(
            host=host.host, nodename=host.nodename, uuid=host.uuid, refused=fleet_host.refused
        )
        try:
            required = self._required(fleet_host.state.policy)
            counted = room(
                fleet_host.state, self._asked.template.build, required, pause=self._pause
            )
            if count.refused:
                return _counted(count, counted, counted.number, "")
            return _counted(count, counted, *self.passing(host, fleet_host.state, counted.number))
        except RequestError as error:
            return replace(count, never=error.message)
        # A wrong report of one host must not end the count of all hosts.
        except Exception as error:
            why = f"{FIT}: this host cannot be judged: {type(error).__name__}: {error}"
            return replace(count, refused=count.refused or why)

    def passing(self, host: HostState, state: NodeState, fits: int) -> tuple[int, str]:
        """Return how many of the builds that fit the filters let pass, and what refuses the next
        one, or "".

        :param state: of the host, on which so many builds fit.
        """
        number, limit, stepped = fits, "", list[NamedCheck]()
        for name, check in self.changing:
            after = getattr(check, "after", None)
            if after is None:
                stepped.append((name, check))
                continue
            passing = bisect_left(range(number), True, key=lambda n: after(host, n) is not None)
            if passing < number:
                number, limit = passing, f"{name}: {after(host, passing).message}"
        if stepped:
            return self._stepped(host, state, stepped, number, limit)
        return number, limit

    def _stepped(
        self, host: HostState, state: NodeState, checks: Sequence[NamedCheck], fits: int, limit: str
    ) -> tuple[int, str]:
        """Build one after the other, until one of the checks refuses the host as it is then."""
        build, required = self._asked.template.build, self._required(state.policy)
        for number in range(fits):
            self._pause()
            for name, check in checks:
                if (rejection := check(host)) is not None:
                    return number, f"{name}: {rejection.message}"
            decision = decide(state, build, required, number)
            assert isinstance(decision, Granted), "as many builds fit"
            state = state.fold(decision.change)
            host = replace(host, **replica_fields(state, host))
        return fits, limit


def _counted(count: HostCount, counted: Room, number: int, limit: str) -> HostCount:
    reasons = () if limit else counted.reasons
    return replace(
        count,
        fits=number,
        at_least=counted.more and not limit,
        reason=reasons[0] if reasons else None,
        limit=limit,
        never=counted.never,
        miss=counted.miss,
    )


def advised(asked: Ask, count: int, parts: Parts, is_over: Callable[[], bool]) -> Advice:
    """Return what makes room for so many instances of a request.

    :param is_over: returns whether the search has to end. Between any two hosts it lets others have
        the processor.
    :raises InvalidRequest: the request itself is wrong.
    """
    placement = _of_placement(asked, parts)
    if placement.undecided:
        return Advice(room=0, undecided=placement.undecided)
    hosts = parts.manager.get_all_host_states()
    counting = Counting(asked, parts)
    request, by_uuid = counting.request, {host.uuid: host for host in hosts}

    def passing(fleet_host: JudgedHost, state: NodeState, fits: int) -> int:
        is_over()
        host = by_uuid[fleet_host.uuid]
        if counting.changing and state is not fleet_host.state:
            host = replace(host, **replica_fields(state, host))
        return counting.passing(host, state, fits)[0]

    judged = fleet_hosts(hosts, request, parts, placement.member_of)
    return advise(
        tuple(_paced(judged, is_over)),
        asked.template.build,
        count,
        passing,
        _destinations(hosts, request, parts, is_over),
        is_over,
    )


def _paced(hosts: Iterable[JudgedHost], is_over: Callable[[], bool]) -> Iterator[JudgedHost]:
    for host in hosts:
        is_over()
        yield host


def _destinations(
    hosts: Sequence[HostState], request: Request, parts: Parts, is_over: Callable[[], bool]
) -> Destinations:
    """Return the hosts in the same zones that the filters let through, once for equal guests."""
    known: dict[bytes, tuple[str, ...]] = {}

    def destinations(guest: Guest, kind: MigrationType) -> Sequence[str]:
        shape = guest.shape(kind)
        if shape not in known:
            zone = [host for host in hosts if host.metadata(ZONE) == guest.zones]
            moved = replace(request, spec=_spec(guest, kind))
            known[shape] = tuple(_passing(zone, moved, parts, is_over))
        return known[shape]

    return destinations


def _passing(
    hosts: Sequence[HostState], request: Request, parts: Parts, is_over: Callable[[], bool]
) -> Iterator[str]:
    """Yield the uuids of the hosts that the filters let through for a move; none if Placement alone
    judges a part of its request.
    """
    with contextlib.suppress(RequestError):  # of a guest that was built from another request
        asked = Ask(spec=request.spec, template=claim_template(request.spec))
        placement = _of_placement(asked, parts)
        if placement.undecided:
            return
        judged = fleet_hosts(hosts, request, parts, placement.member_of)
        for host in _paced(judged, is_over):
            if not host.refused:
                yield host.uuid


def _of_placement(asked: Ask, parts: Parts) -> AskedOfPlacement:
    """Return what a request asks of Placement; if no host can be selected, why."""
    try:
        return asked_of_placement(asked, parts)
    except RtAgentError as error:
        return AskedOfPlacement(undecided=error.message)


def _spec(guest: Guest, kind: MigrationType) -> RequestSpec:
    """Return the request of a guest's move, as far as its claim tells it."""
    request = guest.request(kind).build
    limits, extra = request.limits or Limits(), request.extra_resource or {}
    return spec_of(request.instance, purpose=kind, limits=limits, extra_resource=extra)
