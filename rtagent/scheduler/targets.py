"""Targets: the hosts, nodes, zones and aggregates that a request names.

They are judged before the filters, with Nova's rules: names of hosts to ignore and to force are
compared without case, names of nodes and of a destination exactly.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice

from msgspec.structs import replace

from rtagent.conf.scheduler import FilterOptions
from rtagent.model.claim import EVACUATION, LIVE_MIGRATION, MIGRATION, OUTGOING
from rtagent.model.server import Destination, RequestSpec
from rtagent.scheduler.aggregate_rules import ZONE
from rtagent.scheduler.filter import Check, Rejection, Request
from rtagent.scheduler.filtered import NamedCheck
from rtagent.scheduler.host_state import HostState

#: What refuses instead of a filter: the agent itself grants no claims.
AGENT = "agent"
#: How many names that no host has are reported.
MAX_UNMATCHED = 3
#: The moves that end on another host. A resize may stay on the instance's own.
AWAY = (MIGRATION, LIVE_MIGRATION, EVACUATION)


def skips_filters(spec: RequestSpec) -> bool:
    """Whether hosts or nodes are forced, without a destination that has to be judged."""
    return bool(spec.force_hosts or spec.force_nodes) and not _named(spec.requested_destination)


def checks(request: Request, options: FilterOptions) -> list[NamedCheck]:
    """Return the checks of what the request names."""
    spec = request.spec
    found = [
        ("source", _source(request)),
        ("requested_destination", _destination(spec.requested_destination)),
        ("ignore_hosts", _ignored(spec.ignore_hosts)),
        ("force_hosts", _forced("force_hosts", spec.force_hosts, _host)),
        ("force_nodes", _forced("force_nodes", spec.force_nodes, _node)),
        (AGENT, granting_none if skips_filters(spec) else None),  # else ComputeFilter does
        (ZONE, _zone(spec.availability_zone, options.default_availability_zone)),
    ]
    if not request.placement:  # else Placement has left out the other hosts
        found += [
            ("aggregates", _aggregates(spec.requested_destination)),
            ("forbidden_aggregates", _forbidden(spec.requested_destination)),
        ]
    return [(name, check) for name, check in found if check is not None]


def granting_none(host: HostState) -> Rejection | None:
    """Return why the agent grants no claims, also if no filter refuses the host for it."""
    if host.service.draining is not None:
        return Rejection("it is being drained")
    return None if host.up else Rejection(f"it grants no claims: {host.why_not}")


def only_named(spec: RequestSpec, hosts: Iterable[HostState]) -> str | None:
    """Return the node that the request's destination or its forced names mean, if it is one; None:
    there are none or several, or it uses the disk of another tree, which a query of its own tree
    leaves out.
    """
    named = [_destination(spec.requested_destination)]
    if named == [None]:
        named = [
            _forced("force_hosts", spec.force_hosts, _host),
            _forced("force_nodes", spec.force_nodes, _node),
        ]
    checks = [check for check in named if check is not None]
    if not checks:
        return None
    found = [host for host in hosts if not any(check(host) for check in checks)]
    if len(found) != 1 or found[0].replica.policy.placement.disk_provider is not None:
        return None
    return found[0].uuid


def unmatched(spec: RequestSpec, hosts: Iterable[HostState]) -> tuple[str, ...]:
    """Return a sentence for each forced or requested name that none of the hosts has, for at most
    `MAX_UNMATCHED` names.
    """
    if not (spec.force_hosts or spec.force_nodes or _named(spec.requested_destination)):
        return ()
    known = list(hosts)
    sentences = chain(
        _unknown_destination(spec.requested_destination, known),
        _unknown("force_hosts", spec.force_hosts, known, _host),
        _unknown("force_nodes", spec.force_nodes, known, _node),
    )
    return tuple(islice(sentences, MAX_UNMATCHED))


def following(request: Request, instance_uuid: str, selected: str) -> Request:
    """Return the request of the next instance, whose server group has this one and its host."""
    spec, group = request.spec, request.spec.instance_group
    if group is not None:
        members = dict.fromkeys((*group.members, request.instance_uuid))
        hosts = dict.fromkeys((*group.hosts, selected))
        grown = replace(group, members=tuple(members), hosts=tuple(hosts))
        spec = replace(spec, instance_group=grown)
    return replace(request, spec=spec, instance_uuid=instance_uuid)


def member_hosts(request: Request, hosts: Iterable[HostState]) -> frozenset[str]:
    """Return the hosts that have other members of the request's affinity group, if the request
    names none: those of assumed claims, too, but not those that a member has left, and where its
    claim stays until its move is confirmed.
    """
    group = request.spec.instance_group
    if group is None or group.policy != "affinity" or group.hosts:
        return frozenset()
    members = frozenset(group.members) - {request.instance_uuid}
    return frozenset(host.host for host in hosts if _has_member(host, members))


def _has_member(host: HostState, members: frozenset[str]) -> bool:
    present = members & host.instance_uuids
    return not present.isdisjoint(host.instances_here) or any(
        claim.state != OUTGOING for uuid in present for claim in host.instances[uuid].claims
    )


def joining(request: Request, hosts: Iterable[str]) -> Request:
    """Return the request, whose server group is on these hosts."""
    group = request.spec.instance_group
    if group is None or not hosts:
        return request
    joined = replace(group, hosts=tuple(sorted(hosts)))
    return replace(request, spec=replace(request.spec, instance_group=joined))


def _host(host: HostState) -> str:
    return host.host.lower()


def _node(host: HostState) -> str:
    return host.nodename


def _named(destination: Destination | None) -> bool:
    return destination is not None and bool(destination.host or destination.node)


def _destination(destination: Destination | None) -> Check | None:
    if destination is None or not _named(destination):
        return None
    host, node = destination.host, destination.node
    rejection = Rejection(f"the requested destination is {_described(destination)}")

    def check(state: HostState) -> Rejection | None:
        if (host and state.host != host) or (node and state.nodename != node):
            return rejection
        return None

    return check


def _source(request: Request) -> Check | None:
    purpose, instance_uuid = request.spec.purpose, request.instance_uuid
    if purpose not in AWAY:
        return None
    rejection = Rejection(f"the instance is on this host, and its {purpose} needs another one")
    return lambda state: rejection if instance_uuid in state.instances_here else None


def _ignored(names: tuple[str, ...]) -> Check | None:
    if not names:
        return None
    lowered = {name.lower() for name in names}
    rejection = Rejection("the request ignores this host")
    return lambda state: rejection if state.host.lower() in lowered else None


def _forced(field: str, names: tuple[str, ...], of: Callable[[HostState], str]) -> Check | None:
    if not names:
        return None
    wanted = {_normal(field, name) for name in names}
    rejection = Rejection(f"the request forces {', '.join(names)}")
    return lambda state: None if of(state) in wanted else rejection


def _normal(field: str, name: str) -> str:
    return name.lower() if field == "force_hosts" else name


def _zone(zone: str | None, default: str) -> Check | None:
    if not zone:
        return None

    def check(state: HostState) -> Rejection | None:
        zones = state.metadata(ZONE) or {default}
        if zone in zones:
            return None
        return Rejection(f"it is in the zone {', '.join(sorted(zones))}, not in {zone}")

    return check


def _aggregates(destination: Destination | None) -> Check | None:
    if destination is None or not destination.aggregates:
        return None
    needed = [frozenset(each.split(",")) for each in destination.aggregates]

    def check(state: HostState) -> Rejection | None:
        has = {each.uuid for each in state.aggregates}
        for uuids in needed:
            if not uuids & has:
                return Rejection(f"it is in none of the aggregates {', '.join(sorted(uuids))}")
        return None

    return check


def _forbidden(destination: Destination | None) -> Check | None:
    if destination is None or not destination.forbidden_aggregates:
        return None
    forbidden = frozenset(destination.forbidden_aggregates)

    def check(state: HostState) -> Rejection | None:
        found = [each.name for each in state.aggregates if each.uuid in forbidden]
        if not found:
            return None
        return Rejection(f"it is in the forbidden aggregate {', '.join(sorted(found))}")

    return check


def _unknown(
    field: str, names: tuple[str, ...], hosts: list[HostState], of: Callable[[HostState], str]
) -> Iterator[str]:
    if names:
        known = {of(host) for host in hosts}
        for name in names:
            if _normal(field, name) not in known:
                yield f"{field}: none of the {len(hosts)} hosts has the name {name}"


def _unknown_destination(destination: Destination | None, hosts: list[HostState]) -> Iterator[str]:
    check = _destination(destination)
    if destination is not None and check and all(check(host) for host in hosts):
        yield f"requested_destination: none of the {len(hosts)} hosts is {_described(destination)}"


def _described(destination: Destination) -> str:
    parts = (("host", destination.host), ("node", destination.node))
    return " and ".join(f"{name} {value}" for name, value in parts if value)
