"""JSON views of nodes."""

from collections.abc import Mapping, Sequence
from typing import Any

from rtagent.api import pci
from rtagent.errors import NodeNotFound
from rtagent.model.metric import Metric
from rtagent.model.node_state import NodeState
from rtagent.model.policy import AdditionalInventory
from rtagent.model.provider_names import provider_name
from rtagent.model.usage import Inventory, inventories, pcpus_used
from rtagent.reconcile.drift import absent, drifts, orphans, suspects
from rtagent.state.compute_node import compute_node


def nodes(state: NodeState, metrics: Sequence[Metric] = ()) -> Mapping[str, Any]:
    """``{"nodes": [node]}``; an agent serves one."""
    return {"nodes": [document(state, metrics)]}


def node(state: NodeState, name: str, metrics: Sequence[Metric] = ()) -> Mapping[str, Any]:
    """``{"node": node}``.

    :param name: the node's uuid or its hypervisor_hostname.
    :raises NodeNotFound:
    """
    check_served(state, name)
    return {"node": document(state, metrics)}


def check_served(state: NodeState, name: str) -> None:
    """:raises NodeNotFound: the name is neither the node's uuid nor its hypervisor_hostname."""
    if name not in (state.node.uuid, state.node.hypervisor_hostname):
        raise NodeNotFound(node=name, served=state.node.hypervisor_hostname)


def document(state: NodeState, metrics: Sequence[Metric] = ()) -> dict[str, Any]:
    """Nova's ComputeNode fields; ``inventories`` by resource class; ``provider_files``: what
    they add to each provider; ``pci_devices``, counted by status; and the number of ``claims``,
    ``orphans``, ``drifts``, ``absent`` (units that claims have and the host does not) and
    ``suspects``.
    """
    return {
        **compute_node(state, metrics),
        "inventories": _inventories(state),
        "provider_files": _provider_files(state),
        "pci_devices": pci.counts(state),
        "claims": len(state.claims),
        "orphans": len(orphans(state)),
        "drifts": len(drifts(state)),
        "absent": len(absent(state)),
        "suspects": len(suspects(state)),
    }


def _inventories(state: NodeState) -> dict[str, Any]:
    if state.topology is None:
        return {}
    found = inventories(state.topology, state.policy)
    return {
        "VCPU": _inventory(found.vcpus, state.usage.vcpus, "vCPUs"),
        "PCPU": _inventory(found.pcpus, pcpus_used(state.usage, state.policy), "CPUs"),
        "MEMORY_MB": _inventory(found.memory_mb, state.usage.memory_mb, "MB"),
        "DISK_GB": _inventory(found.disk_mb, state.usage.disk_mb, "MB"),
    }


def _provider_files(state: NodeState) -> list[dict[str, Any]]:
    """``[{"provider", "file", "inventories", "traits"}]``, by the provider's name; inventories have
    Placement's fields.
    """
    policy = state.policy.placement
    return [
        {
            "provider": provider_name(state.node, suffix),
            "file": file,
            "inventories": {
                each.resource_class: _additional(each)
                for each in policy.additional
                if each.suffix == suffix
            },
            "traits": sorted(policy.additional_traits.get(suffix, ())),
        }
        for suffix, file in sorted(policy.additional_by.items())
    ]


def _additional(inventory: AdditionalInventory) -> dict[str, Any]:
    names = ("total", "reserved", "min_unit", "max_unit", "step_size")
    fields = {name: getattr(inventory, name) for name in names}
    return {**fields, "allocation_ratio": float(inventory.allocation_ratio)}


def _inventory(inventory: Inventory, used: int, unit: str) -> dict[str, Any]:
    """:param used: the usage of claims and of foreign domains. If it exceeds the claimable
    quantity, ``free`` is negative.
    """
    return {
        "unit": unit,
        "total": inventory.total,
        "reserved": inventory.reserved,
        "allocation_ratio": float(inventory.ratio),
        "claimable": inventory.claimable,
        "used": used,
        "free": inventory.claimable - used,
    }
