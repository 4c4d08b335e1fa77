"""Nodes, as documents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rtagent.api import pci
from rtagent.compute_node import compute_node
from rtagent.errors import NodeNotFound
from rtagent.model.host import HostState
from rtagent.model.inventory import Inventory, inventories
from rtagent.views import absent, drifts, orphans, suspects


def collection(state: HostState) -> Mapping[str, Any]:
    """Shape: ``{"nodes": [node]}``; an agent serves one."""
    return {"nodes": [node(state)]}


def member(state: HostState, name: str) -> Mapping[str, Any]:
    """Shape: ``{"node": node}``.

    :param name: the node's uuid or its hypervisor_hostname.
    :raises NodeNotFound:
    """
    check_served(state, name)
    return {"node": node(state)}


def check_served(state: HostState, name: str) -> None:
    """:raises NodeNotFound: the name is neither the node's uuid nor its hypervisor_hostname."""
    if name not in (state.node.uuid, state.node.hypervisor_hostname):
        raise NodeNotFound(node=name, served=state.node.hypervisor_hostname)


def node(state: HostState) -> dict[str, Any]:
    """Shape: Nova's ComputeNode fields, ``inventories`` (amounts by resource), ``pci_devices`` (how
    many by status), and how many ``claims``, ``orphans``, ``drifts``, ``absent`` (held, not there)
    and ``suspects`` there are."""
    return {
        **compute_node(state),
        "inventories": _inventories(state),
        "pci_devices": pci.counts(state),
        "claims": len(state.claims),
        "orphans": len(orphans(state)),
        "drifts": len(drifts(state)),
        "absent": len(absent(state)),
        "suspects": len(suspects(state)),
    }


def _inventories(state: HostState) -> dict[str, Any]:
    if state.topology is None:
        return {}
    offered = inventories(state.topology, state.policy)
    return {
        "VCPU": _amounts(offered.vcpus, state.usage.vcpus, "vCPUs"),
        "PCPU": _amounts(offered.pcpus, state.usage.pcpus, "CPUs"),
        "MEMORY_MB": _amounts(offered.memory_mb, state.usage.memory_mb, "MB"),
        "DISK_GB": _amounts(offered.disk_mb, state.usage.disk_mb, "MB"),
    }


def _amounts(inventory: Inventory, used: int, unit: str) -> dict[str, Any]:
    """Used is what claims and foreign domains hold; free may be negative and is shown so."""
    return {
        "unit": unit,
        "total": inventory.total,
        "reserved": inventory.reserved,
        "allocation_ratio": float(inventory.ratio),
        "claimable": inventory.claimable,
        "used": used,
        "free": inventory.claimable - used,
    }
