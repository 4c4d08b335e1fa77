"""The scheduler's limits as rtagent's documents."""

from __future__ import annotations

from typing import Any

from nova import objects

from rtagent.model.request import Limits, NetworkMetadata, NumaLimits

#: Without a limit Nova does not judge shared vCPUs and memory of a cell: its filter has.
UNLIMITED = 1_000_000.0


def limits(nova: Any) -> Limits:
    """Return the limits of a claim.

    :param nova: a SchedulerLimits, its dict, or None.
    """
    values = nova.to_dict() if isinstance(nova, objects.SchedulerLimits) else nova or {}
    numa = values.get("numa_topology")
    if not numa:
        return Limits(numa_topology=_numa(UNLIMITED, UNLIMITED))
    if isinstance(numa, dict):
        numa = objects.NUMATopologyLimits.obj_from_db_obj(numa)
    network = numa.network_metadata if "network_metadata" in numa else None
    return Limits(
        numa_topology=_numa(
            numa.cpu_allocation_ratio, numa.ram_allocation_ratio, network and _networks(network)
        )
    )


def _numa(cpu: float, ram: float, network: NetworkMetadata | None = None) -> NumaLimits:
    return NumaLimits(cpu_allocation_ratio=cpu, ram_allocation_ratio=ram, network_metadata=network)


def _networks(nova: Any) -> NetworkMetadata:
    return NetworkMetadata(physnets=tuple(sorted(nova.physnets)), tunneled=bool(nova.tunneled))
