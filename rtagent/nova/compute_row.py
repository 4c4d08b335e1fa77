"""The quantities of Nova's ComputeNode, as a projection of the state of a node."""

from __future__ import annotations

from typing import Any

from nova import objects

from rtagent.model.claim import ATTACH
from rtagent.model.node_state import NodeState
from rtagent.nova.nova_node import NovaNode
from rtagent.state.compute_node import numa_topology, quantities

#: Fields that have the same meaning here and there.
_SAME = ("memory_mb_used", "local_gb_used")


def project(node: NovaNode, compute_node: Any, stats: Any) -> None:
    """Set the used and free quantities of a ComputeNode.

    :param stats: Nova's statistics of the node.
    """
    state = node.state
    values = quantities(state)
    for name in _SAME:
        setattr(compute_node, name, values[name])
    compute_node.free_ram_mb = compute_node.memory_mb - compute_node.memory_mb_used
    compute_node.free_disk_gb = compute_node.local_gb - compute_node.local_gb_used
    # Nova counts the vCPUs of flavors, and not the CPUs of emulators.
    compute_node.vcpus_used = state.policy.reserved_cpus + sum(
        claim.flavor.vcpus for claim in state.claims.values() if claim.kind != ATTACH
    )
    compute_node.running_vms = stats.num_instances
    compute_node.current_workload = stats.calculate_workload()
    compute_node.stats = stats
    if node.report.get("numa_topology"):
        compute_node.numa_topology = _numa(state, node.report["numa_topology"])


def _numa(state: NodeState, reported: str) -> str:
    """Return the stored NUMATopology: the driver's, with the usage of the claims."""
    topology = objects.NUMATopology.obj_from_db_obj(reported)
    document = numa_topology(state) or {"cells": ()}
    used = {cell["id"]: cell for cell in document["cells"]}
    for cell in topology.cells:
        mine = used[cell.id]
        cell.cpu_usage = mine["cpu_usage"]
        cell.memory_usage = mine["memory_usage"]
        cell.pinned_cpus = set(mine["pinned_cpus"])
        pages = {page["size_kb"]: page["used"] for page in mine["mempages"]}
        for page in cell.mempages:
            page.used = pages.get(page.size_kb, 0)
    return str(topology._to_json())
