"""JSON views of what a scheduler knows: its hosts, its decisions, and the capacity of the fleet, or
how many more guests of each flavor fit, and where.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import asdict
from prometheus_client.metrics_core import Metric

from rtagent.api.metrics import gauge
from rtagent.api.reply import check, one_of
from rtagent.scheduler.aggregate_rules import ZONE
from rtagent.scheduler.decision_log import Decision
from rtagent.scheduler.errors import HostNotFound, HostSetAside
from rtagent.scheduler.fleet_counts import FleetCounts
from rtagent.scheduler.host_state import HostState

#: Fields of `HostState` in the list of hosts.
FIELDS = (
    *("host", "nodename", "uuid", "host_ip", "page_url", "up", "why_not", "free_ram_mb"),
    *("total_usable_ram_mb", "free_disk_mb", "total_usable_disk_gb", "disk_mb_used"),
    *("vcpus_total", "vcpus_used", "cpu_allocation_ratio", "ram_allocation_ratio"),
    *("disk_allocation_ratio", "num_instances", "num_io_ops", "differing", "failed_builds"),
    *("hypervisor_type", "hypervisor_version"),
)
#: Fields of one host, in addition.
MORE = ("cpu_info", "supported_instances", "stats", "metrics", "numa_topology", "pci_stats")


def hosts(states: Sequence[HostState], now: float, down_time: float) -> Mapping[str, Any]:
    """``{"hosts": [host]}``, by name.

    :param now: on the monotonic clock. :param down_time: ``service_down_time``.
    """
    ordered = sorted(states, key=lambda each: (each.host, each.nodename))
    return {"hosts": [_host(each, now, down_time) for each in ordered]}


def host(
    states: Sequence[HostState],
    name: str,
    now: float,
    down_time: float,
    aside: Mapping[str, str] = {},
) -> Mapping[str, Any]:
    """``{"host": host}``, with its instances, cells and pools of devices.

    :param name: the node's uuid, its hypervisor_hostname, or the name of its service host.
    :param aside: why messages of service hosts are set aside.
    :raises HostNotFound: no host has that name.
    """
    for field in ("uuid", "nodename", "host"):
        for each in states:
            if getattr(each, field) == name:
                more = {field: getattr(each, field) for field in MORE}
                instances = {"instances": sorted(each.instances)}
                return {"host": {**_host(each, now, down_time), **more, **instances}}
    if name in aside:
        raise HostSetAside(host=name, why=aside[name])
    raise HostNotFound(host=name)


def _host(state: HostState, now: float, down_time: float) -> dict[str, Any]:
    age = max(0.0, now - state.seen)
    service = state.service
    return {
        **{field: getattr(state, field) for field in FIELDS},
        "age": None if math.isinf(age) else round(age, 1),
        "alive": age < down_time and not service.forced_down,
        "disabled": service.disabled,
        "disabled_reason": service.disabled_reason,
        "forced_down": service.forced_down,
        "draining": service.draining is not None,
        "drain_reason": service.draining,
        "aggregates": [each.name for each in state.aggregates],
        "availability_zone": next(iter(sorted(state.metadata(ZONE))), None),
        "epoch": state.base.epoch,
        "revision": state.base.revision,
    }


def decision(made: Decision) -> Mapping[str, Any]:
    """``{"decision": decision}``: what the list of decisions has of it, and what it was made from.

    Each choice has ``why``, a sentence, and ``compared``: the weights of the selected host, of the
    best of the others, and, if the request was for one instance, of the alternates. ``refusals``
    has some of the refused hosts, ``unlisted`` is the number of the others.
    """
    logged = made.logged
    pairs = [(choice, made.comparisons[choice.instance_uuid]) for choice in logged.choices]
    choices = [
        {
            **asdict(choice),
            "why": comparison.why,
            "compared": (comparison.selected, *comparison.others),
        }
        for choice, comparison in pairs
    ]
    refusals = [
        {
            "host": refusal.host,
            "nodename": refusal.nodename,
            "node_uuid": refusal.uuid,
            "filter": refusal.filter,
            "message": refusal.rejection.message,
            "reasons": [reason.as_dict() for reason in refusal.rejection.reasons],
        }
        for refusal in made.refusals
    ]
    return {
        "decision": {
            **asdict(logged),
            "choices": choices,
            "refusals": refusals,
            "unlisted": sum(logged.refused.values()) - len(refusals),
        }
    }


CAPACITY_FILTERS = frozenset({"flavor", "by"})
#: What the groups of hosts are.
GROUPS = ("host", "zone", "aggregate")
#: Seconds for which a reply waits until what has changed is counted.
PATIENCE = 2.0
METRICS_PATIENCE = 0.5


def capacity(
    counts: FleetCounts, query: Mapping[str, str], without_report: Mapping[str, str]
) -> Mapping[str, Any]:
    """``{"capacity": {"flavors": [flavor], "left_out": number, "without_report": {host: why}}}``,
    see `FleetFlavor`.

    ``flavor``: that one alone, also one beyond the limit of the catalogue; none if there is none of
    that name. ``by``: with the room by host, zone or aggregate.

    :param without_report: why no report of a host can be used, by host.
    :raises InvalidRequest: ``by`` is something else.
    """
    check("capacity", query, {"by": one_of(GROUPS)})
    counted = counts.capacity(query.get("flavor"), query.get("by"), PATIENCE)
    return {"capacity": {**asdict(counted), "without_report": without_report}}


def room_metrics(counts: FleetCounts) -> Iterator[Metric]:
    """Yield the room of each flavor, and the number of hosts with room, of those flavors that are
    counted on all hosts.
    """
    counted = [
        (flavor.name, flavor.summary)
        for flavor in counts.capacity(patience=METRICS_PATIENCE).flavors
        if flavor.summary is not None and not flavor.pending
    ]
    room = {(name,): summary.room for name, summary in counted}
    what = "Further guests of the flavor that fit"
    yield gauge("rtagent_scheduler_room", what, ("flavor",), room)
    hosts = {(name,): summary.hosts_with_room for name, summary in counted}
    what = "Hosts that take at least one further guest of the flavor"
    yield gauge("rtagent_scheduler_room_hosts", what, ("flavor",), hosts)
