"""The room of one flavor in a fleet: on each host, and in all."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import TypeVar

from rtagent.model.base import Value
from rtagent.model.decision import Reason
from rtagent.model.host_report import InstanceInfo
from rtagent.model.node_state import NodeState

_NUMBER = re.compile(r"[0-9]")


class JudgedHost(Value, frozen=True, kw_only=True):
    """One host, for the builds of one request.

    :ivar host: the service's host. :ivar uuid: of the node.
    :ivar state: one that `judged` returns, with the claims that selections have assumed. A build of
        a new owner is decided on it as the host's agent decides. All other owners are one total, so
        it has none of their claims.
    :ivar zones: the availability zones that its aggregates name.
    :ivar refused: why the host takes no build whatever is free: the filter, and its sentence; "":
        it takes builds.
    :ivar instances: the owners on the host, by uuid, with their claims. A value is decoded when it
        is read.
    :ivar own_state: returns a state of the host with the claims of one of these owners as claims.
        Other claims may have been folded into the state, or ended.
    """

    host: str
    nodename: str
    uuid: str
    state: NodeState
    zones: frozenset[str] = frozenset()
    refused: str = ""
    instances: Mapping[str, InstanceInfo] = {}
    own_state: Callable[[NodeState, str], NodeState] = lambda state, _: state


class HostCount(Value, frozen=True, kw_only=True):
    """The count of one host.

    :ivar zones: and :ivar aggregates: the names of those that it is in.
    :ivar fits: how many builds fit. :ivar at_least: the count stopped there.
    :ivar reason: the first reason for which the next one is refused. :ivar limit: what refuses it
        if it would fit: the filter, and its sentence; or "".
    :ivar never: why the flavor does not fit even the empty host, or "". :ivar miss: what it lacks
        then, as a part of what is requested.
    :ivar refused: see `JudgedHost`. :ivar judged: the agent judges vCPUs, memory and disk.
    """

    host: str
    nodename: str
    uuid: str
    zones: tuple[str, ...] = ()
    aggregates: tuple[str, ...] = ()
    fits: int = 0
    at_least: bool = False
    reason: Reason | None = None
    limit: str = ""
    never: str = ""
    miss: Fraction = Fraction(1)
    refused: str = ""
    judged: bool = True


class Scarce(Value, frozen=True, kw_only=True):
    """What ends the count on some hosts: one resource, or one filter.

    :ivar message: of the host that lacks least.
    """

    resource: str
    hosts: int
    message: str


class RefusedHosts(Value, frozen=True, kw_only=True):
    """Hosts that take no build, for one reason.

    :ivar why: the filter, and its sentence about one of them.
    :ivar fits: how many builds they would add.
    """

    why: str
    hosts: int
    fits: int


_Part = TypeVar("_Part", Scarce, RefusedHosts)


class Summary(Value, frozen=True, kw_only=True):
    """The room on some hosts together.

    :ivar room: how many further builds succeed, one after another. :ivar at_least: the count of a
        host stopped, so that it may be more.
    :ivar hosts: that were counted. :ivar hosts_with_room: that take at least one build.
    :ivar largest: the most that one of them takes; :ivar largest_host: its name, or None.
    :ivar scarce: and :ivar refused: those of most hosts first.
    :ivar never: why the flavor fits none of the hosts, even if they are empty, or "".
    :ivar not_judged: the number of hosts whose vCPUs, memory and disk Placement decides on. They
        are counted with the ratios of the node.
    """

    room: int
    at_least: bool
    hosts: int
    hosts_with_room: int
    largest: int
    largest_host: str | None
    scarce: tuple[Scarce, ...]
    refused: tuple[RefusedHosts, ...]
    never: str
    not_judged: int


class Group(Value, frozen=True, kw_only=True):
    """Some hosts. :ivar name: of the host, the zone or the aggregate; None: those in none.
    :ivar node_uuid: of the host.
    """

    name: str | None
    node_uuid: str | None = None
    summary: Summary


def summary(counts: Sequence[HostCount]) -> Summary:
    """Return the room on some hosts together."""
    taking = [count for count in counts if count.fits and not count.refused]
    largest = max(taking, key=lambda each: each.fits, default=None)
    none_fits = bool(counts) and all(count.never for count in counts)
    return Summary(
        room=sum(count.fits for count in taking),
        at_least=any(count.at_least for count in taking),
        hosts=len(counts),
        hosts_with_room=len(taking),
        largest=0 if largest is None else largest.fits,
        largest_host=None if largest is None else largest.host,
        scarce=_most_hosts_first(_scarce(counts)),
        refused=_most_hosts_first(_refused(counts)),
        never=min(counts, key=lambda each: each.miss).never if none_fits else "",
        not_judged=sum(not count.judged for count in counts),
    )


def groups(counts: Iterable[HostCount], by: str) -> Iterator[Group]:
    """Yield the room by groups of hosts, in order of their names. A host in several aggregates is
    in several groups.

    :param by: ``host``, ``zone`` or ``aggregate``.
    """
    if by == "host":
        for count in sorted(counts, key=lambda each: (each.host, each.nodename)):
            yield Group(name=count.host, node_uuid=count.uuid, summary=summary([count]))
        return
    named: dict[str | None, list[HostCount]] = {}
    for count in counts:
        names = count.zones if by == "zone" else count.aggregates
        for name in names or (None,):
            named.setdefault(name, []).append(count)
    for name in sorted(named, key=lambda each: (each is None, each)):
        yield Group(name=name, summary=summary(named[name]))


def _scarce(counts: Iterable[HostCount]) -> Iterator[Scarce]:
    ended: dict[str, list[HostCount]] = {}
    for count in counts:
        if not count.refused and (name := _ends_by(count)):
            ended.setdefault(name, []).append(count)
    for name, same in ended.items():
        nearest = min(same, key=_miss)
        reason = nearest.reason
        message = nearest.limit or nearest.never if reason is None else str(reason)
        yield Scarce(resource=name, hosts=len(same), message=message)


def _ends_by(count: HostCount) -> str:
    """Return what ends the count of a host: a resource, a filter, or the request itself."""
    if count.reason is not None:
        return count.reason.resource
    if count.limit:
        return count.limit.partition(":")[0]
    return "request" if count.never else ""


def _miss(count: HostCount) -> float:
    reason = count.reason
    if reason is None:
        return float(count.miss)
    # As `Reason.miss`, whose fractions take most of the time of a summary of 1,000 hosts.
    return (reason.requested - reason.available) / max(1, reason.requested)


def _refused(counts: Iterable[HostCount]) -> Iterator[RefusedHosts]:
    same: dict[str, list[HostCount]] = {}
    for count in counts:
        if count.refused:
            # Each host that is down has another age.
            same.setdefault(_NUMBER.split(count.refused)[0], []).append(count)
    for hosts in same.values():
        fits = sum(count.fits for count in hosts)
        yield RefusedHosts(why=hosts[0].refused, hosts=len(hosts), fits=fits)


def _most_hosts_first(parts: Iterable[_Part]) -> tuple[_Part, ...]:
    return tuple(sorted(parts, key=lambda each: -each.hosts))
