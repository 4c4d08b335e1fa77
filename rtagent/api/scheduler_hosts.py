"""JSON views of the hosts that a scheduler knows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from rtagent.scheduler.aggregate_rules import ZONE
from rtagent.scheduler.errors import HostNotFound, HostSetAside
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
