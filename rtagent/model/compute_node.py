"""The node's record, with Nova's field names: what the database and `get_node` show."""

from __future__ import annotations

import json
from typing import Any

from rtagent.model import stats
from rtagent.model.host import HostState
from rtagent.model.policy import Policy
from rtagent.model.topology import Topology

MB_IN_GB = 1024


def compute_node(state: HostState) -> dict[str, Any]:
    """Shape: Nova's ComputeNode fields and the node's revision and epoch, JSON primitives.

    Used amounts count what is reserved; free ones may be negative and are shown so.
    """
    return {
        **identity(state),
        **amounts(state),
        **(described(state.topology) if state.topology else {}),
        **ratios(state.policy),
    }


def identity(state: HostState) -> dict[str, Any]:
    """Who the node is, and at which revision."""
    return {
        "uuid": state.node.uuid,
        "host": state.node.host,
        "hypervisor_hostname": state.node.hypervisor_hostname,
        "host_ip": state.node.host_ip,
        "revision": state.revision,
        "epoch": state.epoch,
    }


def amounts(state: HostState) -> dict[str, Any]:
    """What is used and free: all that a claim moves."""
    policy, used, counters = state.policy, state.usage, dict(state.counters)
    memory_mb = state.topology.memory_mb if state.topology else 0
    disk_mb = state.topology.disk_mb if state.topology else 0
    memory_used = policy.reserved_memory_mb + used.memory_mb
    disk_used = policy.reserved_disk_mb + used.disk_mb
    return {
        "vcpus_used": policy.reserved_cpus + used.vcpus,
        "memory_mb_used": memory_used,
        "local_gb_used": -(-disk_used // MB_IN_GB),
        "free_ram_mb": memory_mb - memory_used,
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


def described(topology: Topology) -> dict[str, Any]:
    """What the host is made of."""
    return {
        "vcpus": len(topology.cpus),
        "memory_mb": topology.memory_mb,
        "local_gb": topology.disk_mb // MB_IN_GB,
        "hypervisor_type": topology.hypervisor_type,
        "hypervisor_version": topology.hypervisor_version,
        "cpu_info": json.dumps(topology.cpu_info, sort_keys=True),
        "supported_hv_specs": [list(spec) for spec in topology.supported_hv_specs],
        "numa_topology": None,
        "pci_device_pools": [],
        "metrics": [],
    }


def ratios(policy: Policy) -> dict[str, Any]:
    """The allocation ratios in force."""
    return {
        "cpu_allocation_ratio": float(policy.cpu_allocation_ratio),
        "ram_allocation_ratio": float(policy.ram_allocation_ratio),
        "disk_allocation_ratio": float(policy.disk_allocation_ratio),
    }
