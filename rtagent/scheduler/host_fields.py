"""The fields of a host that extra specs (``capabilities:``) and queries can name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import asdict

from rtagent.scheduler.host_state import HostState

#: Names of Nova's HostState. Objects that have no text form are left out: aggregates, instances.
FIELDS = frozenset(
    {
        *("host", "nodename", "uuid", "host_ip", "hypervisor_hostname"),
        *("free_ram_mb", "total_usable_ram_mb"),
        *("free_disk_mb", "total_usable_disk_gb", "disk_mb_used"),
        *("vcpus_total", "vcpus_used"),
        *("cpu_allocation_ratio", "ram_allocation_ratio", "disk_allocation_ratio"),
        *("num_instances", "num_io_ops", "failed_builds"),
        *("hypervisor_type", "hypervisor_version", "cpu_info", "supported_instances"),
        *("stats", "numa_topology", "pci_stats", "service"),
    }
)


def field(host: HostState, path: Sequence[str]) -> Any:
    """Return the value at a path, of which the first name is in `FIELDS`; None: there is none."""
    first, *keys = path
    value: Any = getattr(host, first)
    if first == "service":
        value = {"host": host.host, **asdict(value)}
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value
