"""The node's record with Nova's field names, as in the database and in `get_node`, and its
resources in lines of the log, with the words of Nova's resource tracker. Pure.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import asdict

from rtagent.model import stats
from rtagent.model.derived import derived
from rtagent.model.metric import Metric, documents
from rtagent.model.node_state import NodeState
from rtagent.model.policy import NetworkPolicy, NumaPolicy, Policy
from rtagent.model.topology import Cell, Topology
from rtagent.model.units import MB_IN_GB, round_up
from rtagent.model.usage import NumaUsage, memory_mb, pcpus_used
from rtagent.numa.host_cells import page_pools
from rtagent.pci.allocations import device_allocations
from rtagent.pci.device_users import AVAILABLE


def compute_node(state: NodeState, metrics: Sequence[Metric] = ()) -> dict[str, Any]:
    """Return Nova's ComputeNode fields with the node's revision and epoch, as JSON primitives.

    Used quantities include reserved ones. Free quantities may be negative.

    :param metrics: what the compute monitors have measured.
    """
    return {
        **identity(state),
        **quantities(state),
        **(described(state.topology, state.policy) if state.topology else {}),
        "numa_topology": numa_topology(state),
        "pci_device_pools": pci_device_pools(state),
        "metrics": documents(metrics),
        **ratios(state.policy),
    }


def identity(state: NodeState) -> dict[str, Any]:
    """Return the identity of the node, its revision and its epoch."""
    return {**asdict(state.node), "revision": state.revision, "epoch": state.epoch}


def quantities(state: NodeState) -> dict[str, Any]:
    """Return the used and free quantities: the fields that claims change."""
    policy, used, counters = state.policy, state.usage, dict(state.counters)
    memory = memory_mb(state.topology, policy) if state.topology else 0
    disk_mb = state.topology.disk_mb if state.topology else 0
    memory_used = policy.reserved_memory_mb + used.memory_mb
    disk_used = policy.reserved_disk_mb + used.disk_mb
    return {
        "vcpus_used": policy.reserved_cpus + used.vcpus + pcpus_used(used, policy),
        "memory_mb_used": memory_used,
        "local_gb_used": round_up(disk_used, MB_IN_GB),
        "free_ram_mb": memory - memory_used,
        "free_disk_gb": (disk_mb - disk_used) // MB_IN_GB,
        "disk_available_least": state.disk_available_least,
        "running_vms": counters.get("num_instances", 0),
        "current_workload": stats.current_workload(counters),
        "stats": {
            **counters,
            "io_workload": stats.io_workload(counters),
            "failed_builds": state.failed_builds,
        },
    }


def described(topology: Topology, policy: Policy) -> dict[str, Any]:
    """Return the fields that describe the host. ``vcpus`` counts the CPUs that guests may use,
    shared and dedicated ones.
    """
    sets = policy.numa
    return {
        "vcpus": len(sets.shared(topology.cpus) | sets.dedicated(topology.cpus)),
        "memory_mb": memory_mb(topology, policy),
        "local_gb": topology.disk_mb // MB_IN_GB,
        "hypervisor_type": topology.hypervisor_type,
        "hypervisor_version": topology.hypervisor_version,
        "cpu_info": json.dumps(topology.cpu_info, sort_keys=True),
        "supported_hv_specs": [list(spec) for spec in topology.supported_hv_specs],
    }


def numa_topology(state: NodeState) -> dict[str, Any] | None:
    """Return the cells with their capacity and usage, or None if the host reports no cells.

    Format: ``{"cells": [{"id", "cpuset", "pcpuset", "cpu_usage", "pinned_cpus", "siblings",
    "memory", "memory_usage", "mempages": [{"size_kb", "total", "used", "reserved"}],
    "network_metadata": {"physnets", "tunneled"}}]}``, with the names of Nova's NUMACell.

    The numbers are those by which claims are decided, so that a scheduler that computes with them
    grants no more than the agent. ``cpuset`` leaves out shared CPUs that a guest is pinned to.
    ``cpu_usage`` counts shared vCPUs. ``pinned_cpus`` includes the idle thread siblings. Memory is
    in MB. Memory without an explicit page size uses pages of the smallest size. A guest without
    NUMA cells uses nothing of a cell. All documents of a host share ``siblings``.
    """
    if state.topology is None or not state.topology.cells:
        return None
    numa, used = state.policy.numa, state.usage.numa
    pinned = used.pinned.keys() | used.kept.keys()
    return {
        "cells": [
            {
                "id": cell.id,
                "cpuset": sorted(numa.floating(cell.cpus, pinned)),
                "pcpuset": sorted(numa.dedicated(cell.cpus)),
                "cpu_usage": used.vcpus.get(cell.id, 0),
                "pinned_cpus": sorted(pinned & (cell.cpus | cell.offline)),
                "siblings": siblings,
                "memory": cell.memory_mb,
                "memory_usage": used.memory_mb.get(cell.id, 0),
                "mempages": list(_mempages(cell, used, numa)),
                "network_metadata": _network_metadata(cell.id, numa.networks),
            }
            for cell, siblings in zip(state.topology.cells, _siblings(state.topology), strict=True)
        ]
    }


@derived
def _siblings(topology: Topology) -> tuple[list[list[int]], ...]:
    """Return the threads of the cores of each cell."""
    return tuple([sorted(threads) for threads in cell.siblings] for cell in topology.cells)


def pci_device_pools(state: NodeState) -> list[dict[str, Any]]:
    """Return the available devices, counted by their properties, as Nova's PciDevicePools."""
    return [pool.as_dict() for pool in device_allocations(state).pools()]


def _mempages(cell: Cell, used: NumaUsage, numa: NumaPolicy) -> Iterator[dict[str, int]]:
    reserved = numa.reserved_huge_pages.get(cell.id, {})
    for size, (total, free) in page_pools(cell, used, numa).items():
        kept = reserved.get(size, 0)
        yield {"size_kb": size, "total": total, "used": total - kept - free, "reserved": kept}


def _network_metadata(cell: int, networks: NetworkPolicy) -> dict[str, Any]:
    physnets = sorted(name for name, cells in networks.physnets.items() if cell in cells)
    return {"physnets": physnets, "tunneled": cell in networks.tunnels}


def ratios(policy: Policy) -> dict[str, Any]:
    """Return the allocation ratios in force."""
    return {
        "cpu_allocation_ratio": float(policy.cpu_allocation_ratio),
        "ram_allocation_ratio": float(policy.ram_allocation_ratio),
        "disk_allocation_ratio": float(policy.disk_allocation_ratio),
    }


#: The most pools of devices in a line.
POOLS = 20


def resource_views(state: NodeState) -> Mapping[str, str]:
    """Return a line for each view, by its title: what the hypervisor has, what is free on the node,
    and the node's record as a whole. None before the host was observed.
    """
    if state.topology is None:
        return {}
    name = f"name={state.node.hypervisor_hostname}"
    record = {**quantities(state), **described(state.topology, state.policy)}
    free_vcpus = record["vcpus"] - record["vcpus_used"]
    free_devices, pools = _devices(state)
    return {
        "Hypervisor resource view": f"{name} {_hardware(state.topology)}"
        f" pci_devices={len(state.devices)}",
        "Hypervisor/Node resource view": f"{name} free_ram={record['free_ram_mb']}MB"
        f" free_disk={record['free_disk_gb']}GB free_vcpus={free_vcpus}"
        f" pci_devices={free_devices}",
        "Final resource view": f"{name} phys_ram={record['memory_mb']}MB"
        f" used_ram={record['memory_mb_used']}MB phys_disk={record['local_gb']}GB"
        f" used_disk={record['local_gb_used']}GB total_vcpus={record['vcpus']}"
        f" used_vcpus={record['vcpus_used']} pci_stats=[{pools}]"
        f" running_vms={record['running_vms']}",
    }


def _hardware(topology: Topology) -> str:
    return (
        f"phys_ram={topology.memory_mb}MB phys_disk={topology.disk_mb // MB_IN_GB}GB"
        f" cpus={len(topology.cpus)} numa_cells={len(topology.cells)}"
    )


def _devices(state: NodeState) -> tuple[int, str]:
    """Return how many devices are available, and ``VENDOR:PRODUCT=AVAILABLE/ALL`` of each pool."""
    allocations = device_allocations(state)
    every, available = Counter[str](), Counter[str]()
    for address, recorded in state.devices.items():
        pool = f"{recorded.device.vendor_id}:{recorded.device.product_id}"
        every[pool] += 1
        available[pool] += allocations.state(address).state == AVAILABLE
    shown = [f"{pool}={available[pool]}/{every[pool]}" for pool in sorted(every)]
    more = [f"({len(shown) - POOLS} more)"] if len(shown) > POOLS else []
    return available.total(), ", ".join([*shown[:POOLS], *more])
