"""The hosts of a fleet: a heat map and a table of all, and one host as the scheduler knows it."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from rtagent.api import scheduler_documents
from rtagent.api.page.host_map import host_map
from rtagent.api.page.owners import OwnerRows
from rtagent.api.page.queries import PageQuery
from rtagent.api.page.rendering import Content
from rtagent.errors import InvariantViolated
from rtagent.model.base import Value
from rtagent.model.change import Change
from rtagent.model.host_report import InstanceInfo
from rtagent.model.node_state import NodeState
from rtagent.scheduler.decision_log import LoggedDecision
from rtagent.scheduler.host_state import HostState

PATH = "/"
NAMES = frozenset(
    {"q", "status", "zone", "aggregate", "drift", "by", "group", "sort", "order", "from"}
)
#: Rows of the table on one page, and instances of a host that are listed.
ROWS, INSTANCES = 50, 500
#: Up to so many hosts a tile has a name.
NAMED = 200
GROUPS: Mapping[str, str] = {"zone": "availability zone", "aggregate": "aggregate"}
ABSENT = "none"

#: Statuses, worst first: the name, the sign that stands for it where there is no space for words,
#: and what it means.
DOWN, CLOSED, DRAINING, DISABLED, UP = STATUSES = ("down", "closed", "draining", "disabled", "up")
SIGNS: Mapping[str, str] = {DOWN: "✕", CLOSED: "!", DRAINING: "↓", DISABLED: "=", UP: ""}
MEANINGS: Mapping[str, str] = {
    DOWN: "down: its agent is silent, or an operator has forced it down",
    CLOSED: "closed: its agent grants no claims now",
    DRAINING: "draining: it gets no new claims",
    DISABLED: "disabled: its service is disabled",
    UP: "up",
}
#: What the colours of the heat map show: the label.
MEASURES: Mapping[str, str] = {
    "most": "the scarcest resource",
    "vcpus": "shared vCPUs",
    "pcpus": "dedicated CPUs",
    "memory": "memory",
    "disk": "disk",
}
#: Steps of the colours.
STEPS = 10


class FleetHost(Value, frozen=True, kw_only=True):
    """One host.

    :ivar document: what the read API has of it.
    :ivar status: one of `STATUSES`. :ivar why: the reason, if there is one.
    :ivar promised: by measure, in percent of what can be claimed; without those of which the host
        has nothing.
    """

    state: HostState
    document: Mapping[str, Any]
    status: str
    why: str
    promised: Mapping[str, float]

    @property
    def most(self) -> float:
        """The promised part of the scarcest resource, in percent."""
        return max(self.promised.values(), default=0.0)


#: What is the same for every fleet.
_WORDS: Mapping[str, Any] = {
    "measures": MEASURES,
    "group_names": GROUPS,
    "meanings": MEANINGS,
    "signs": SIGNS,
    "steps": STEPS,
}

_Key = Callable[[FleetHost], Any]
SORTS: Mapping[str, _Key] = {
    "name": lambda host: (host.state.host, host.state.nodename),
    "status": lambda host: STATUSES.index(host.status),
    "promised": lambda host: host.most,
    "instances": lambda host: host.state.num_instances,
    "drift": lambda host: host.state.differing,
    "vcpus": lambda host: host.state.capacity.free_vcpus,
    "pcpus": lambda host: host.state.capacity.free_pcpus,
    "memory": lambda host: host.state.capacity.free_memory_mb,
    "disk": lambda host: host.state.capacity.free_disk_mb,
    "age": lambda host: float("inf") if host.document["age"] is None else host.document["age"],
}


def fleet(states: Sequence[HostState], now: float, down_time: float) -> list[FleetHost]:
    """Return the hosts, by name.

    :param now: on the monotonic clock. :param down_time: ``service_down_time``.
    """
    documents = scheduler_documents.hosts(states, now, down_time)["hosts"]
    by_uuid = {state.uuid: state for state in states}
    return [_fleet_host(by_uuid[document["uuid"]], document) for document in documents]


def fleet_page(hosts: Sequence[FleetHost], query: Mapping[str, str]) -> Content:
    """Return the fleet. :param hosts: by name."""
    asked = PageQuery(PATH, query, NAMES)
    choices = _choices(hosts)
    filters = {"q": asked.text("q"), "drift": asked.choice("drift", ("1",))}
    filters |= {name: asked.choice(name, values) for name, values in choices.items()}
    by = asked.choice("by", MEASURES, "most")
    group = asked.choice("group", GROUPS)
    matching = [host for host in hosts if _matches(host, filters)]
    first = {"from": None}
    return Content(
        template="fleet.html",
        values={
            **asked.table(matching, ROWS, SORTS, "name"),
            "total": len(hosts),
            "counts": _counts(hosts),
            "drifting": sum(host.state.differing > 0 for host in hosts),
            "status_links": {each: asked.link(status=each, **first) for each in STATUSES},
            "drift_link": asked.link(drift="1", **first),
            "filters": filters,
            "choices": choices,
            "by": by,
            "group": group,
            **_WORDS,
            "groups": [(title, each, _counts(each)) for title, each in _groups(matching, group)],
            "named": len(matching) <= NAMED,
        },
    )


def fleet_host_page(
    states: Sequence[HostState],
    name: str,
    now: float,
    down_time: float,
    at: datetime,
    decisions: Sequence[LoggedDecision] = (),
) -> Content:
    """Return the page of a host: its map, made of the instances that its agent has reported.

    :param now: on the monotonic clock. :param at: the time. :param decisions: newest first.
    :raises HostNotFound:
    """
    document = scheduler_documents.host(states, name, now, down_time)["host"]
    state = next(state for state in states if state.uuid == document["uuid"])
    shown = _reported(state, at)
    listed = [state.instances[uuid] for uuid in sorted(state.instances)[:INSTANCES]]
    values = {
        "host": _fleet_host(state, document),
        "measures": MEASURES,
        "meanings": MEANINGS,
        "mapped": shown is not None,
        "decided": _decided(listed, decisions),
        "instances": sorted((_name(info), info.uuid, info) for info in listed),
        "unlisted": max(0, len(state.instances) - INSTANCES),
    }
    pages = {} if shown is None else host_map(shown, OwnerRows()).values
    return Content(template="fleet_host.html", values={**pages, **values})


def _decided(
    infos: Iterable[InstanceInfo], decisions: Sequence[LoggedDecision]
) -> list[tuple[str, str]]:
    """The names of instances that this scheduler has put on a host, with their claims' uuids."""
    here = {claim.uuid: _name(info) for info in infos for claim in info.claims}
    chosen = (choice.operation_id for decision in decisions for choice in decision.choices)
    return sorted((here[uuid], uuid) for uuid in chosen if uuid in here)


def _choices(hosts: Sequence[FleetHost]) -> Mapping[str, Sequence[str]]:
    """What the filters of the fleet offer."""
    zones = {_zone(host) for host in hosts} - {""}
    aggregates = {name for host in hosts for name in host.document["aggregates"]}
    return {
        "status": STATUSES,
        "zone": (*sorted(zones), ABSENT),
        "aggregate": (*sorted(aggregates), ABSENT),
    }


def _fleet_host(state: HostState, document: Mapping[str, Any]) -> FleetHost:
    status, why = _status(state, alive=bool(document["alive"]))
    return FleetHost(
        state=state, document=document, status=status, why=why, promised=dict(_promised(state))
    )


def _status(state: HostState, *, alive: bool) -> tuple[str, str]:
    service = state.service
    if not alive:
        return DOWN, "forced down" if service.forced_down else "its agent is silent"
    if service.draining is not None:
        return DRAINING, service.draining
    if service.disabled:
        return DISABLED, service.disabled_reason or ""
    return (UP, "") if state.up else (CLOSED, state.why_not)


def _promised(state: HostState) -> Iterator[tuple[str, float]]:
    has, usage = state.capacity, state.replica.usage
    for name, used, free in (
        ("vcpus", usage.vcpus, has.free_vcpus),
        ("pcpus", usage.pcpus, has.free_pcpus),
        ("memory", usage.memory_mb, has.free_memory_mb),
        ("disk", usage.disk_mb, has.free_disk_mb),
    ):
        whole = used + free
        if name == "disk" and not has.disk_checked:
            continue
        if whole > 0:
            yield name, round(100 * used / whole, 1)
        elif used > 0:
            yield name, 100.0


def _zone(host: FleetHost) -> str:
    return host.document["availability_zone"] or ""


def _matches(host: FleetHost, filters: Mapping[str, str]) -> bool:
    text, document = filters["q"].casefold(), host.document
    names = (document["host"], document["nodename"])
    if text and not any(text in name.casefold() for name in names):
        return bool(text == document["uuid"])
    if filters["status"] not in ("", host.status):
        return False
    if filters["zone"] and filters["zone"] != (_zone(host) or ABSENT):
        return False
    if filters["aggregate"] and filters["aggregate"] not in (document["aggregates"] or (ABSENT,)):
        return False
    return not filters["drift"] or host.state.differing > 0


def _counts(hosts: Iterable[FleetHost]) -> Mapping[str, int]:
    counts = Counter(host.status for host in hosts)
    return {status: counts[status] for status in STATUSES if counts[status]}


def _groups(hosts: Iterable[FleetHost], group: str) -> list[tuple[str, list[FleetHost]]]:
    """The members of each group, by its title."""
    members: dict[str, list[FleetHost]] = {}
    for host in hosts:
        names: Iterable[str] = ("",)
        if group == "zone":
            names = (_zone(host) or "no zone",)
        elif group == "aggregate":
            names = host.document["aggregates"] or ("no aggregate",)
        for name in names:
            members.setdefault(name, []).append(host)
    return sorted(members.items())


def _reported(state: HostState, at: datetime) -> NodeState | None:
    """The state of the host with its owners, which the replica has only as a sum. None: it was not
    described yet, or the list of instances contradicts itself for the moment."""
    replica = state.replica
    if replica.topology is None:
        return None
    infos = [state.instances[uuid] for uuid in state.instances]
    claims = {claim.uuid: claim for info in infos for claim in info.claims}
    bare = NodeState(
        node=replica.node,
        policy=replica.policy,
        topology=replica.topology,
        epoch=replica.epoch,
        devices=replica.devices,
        resource_inventories=replica.resource_inventories,
    )
    change = Change(
        cause="report",
        at=at,
        puts=tuple(replace(claim, node_uuid=replica.node.uuid) for claim in claims.values()),
        domain_usages=tuple(info.domain_usage for info in infos if info.domain_usage is not None),
    )
    try:
        return bare.fold(change)
    except InvariantViolated:
        return None


def _name(info: InstanceInfo) -> str:
    """The name of an instance, or of its domain."""
    name = info.claims[0].instance.display_name if info.claims else None
    if not info.claims and info.domain_usage:
        name = info.domain_usage.name
    return name or info.uuid
