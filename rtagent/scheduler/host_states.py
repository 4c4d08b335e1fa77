"""Build the HostState of a host from its replica and its other facts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rtagent.allocation.capacity import capacity_of
from rtagent.allocation.device_fits import carry_device_views
from rtagent.model.aggregate import Aggregate
from rtagent.model.base import Value
from rtagent.model.host_report import InstanceInfo, ServiceState
from rtagent.model.inventory import memory_mb
from rtagent.model.metric import Metric
from rtagent.model.node_state import NodeState
from rtagent.model.position import Position
from rtagent.model.stats import io_workload
from rtagent.model.units import MB_IN_GB
from rtagent.pci.allocations import device_allocations
from rtagent.scheduler.host_state import HostState
from rtagent.state.compute_node import quantities, ratios


class HostFacts(Value, frozen=True, kw_only=True):
    """The facts of a host besides its replica: see the fields of `HostState`."""

    base: Position
    version: int
    seen: float
    page_url: str = ""
    service: ServiceState = ServiceState()
    up: bool = True
    why_not: str = ""
    aggregates: tuple[Aggregate, ...] = ()
    instances: Mapping[str, InstanceInfo] = {}
    instances_here: frozenset[str] = frozenset()
    differing: int = 0
    metrics: tuple[Metric, ...] = ()


def host_state_of(
    replica: NodeState, facts: HostFacts, before: HostState | None = None
) -> HostState:
    """Return the state of a host.

    The quantities are those of the node's record (Nova's ComputeNode): used ones include what is
    reserved. Statistics are counted from the claims.

    :param replica: the node's state, with assumed claims.
    :param before: the state before this one. Parts that did not change are reused.
    """
    return HostState(
        replica=replica,
        host=replica.node.host,
        nodename=replica.node.hypervisor_hostname,
        uuid=replica.node.uuid,
        host_ip=replica.node.host_ip,
        capacity=capacity_of(replica),
        num_instances=replica.counters.get("num_instances", 0),
        num_io_ops=io_workload(replica.counters),
        failed_builds=replica.failed_builds,
        available_devices=_available_devices(replica, before),
        **ratios(replica.policy),
        **_quantities(replica),
        **_described(replica),
        base=facts.base,
        version=facts.version,
        seen=facts.seen,
        page_url=facts.page_url,
        service=facts.service,
        up=facts.up,
        why_not=facts.why_not,
        aggregates=facts.aggregates,
        instances=facts.instances,
        instance_uuids=frozenset(facts.instances),
        instances_here=facts.instances_here,
        differing=facts.differing,
        metrics=facts.metrics,
    )


def _available_devices(replica: NodeState, before: HostState | None) -> int:
    if not replica.devices:
        return 0
    if before is not None and _devices_in_use(replica) == _devices_in_use(before.replica):
        carry_device_views(before.replica, replica)
        return before.available_devices
    return sum(len(each.addresses) for each in device_allocations(replica).available())


def _devices_in_use(replica: NodeState) -> tuple[object, ...]:
    """Return a key that changes when other devices are available. Replicas of one description share
    its parts.
    """
    claims = [each for each in replica.claims.values() if each.pci or each.resources]
    described = id(replica.devices), id(replica.policy), id(replica.topology)
    return described, replica.node, replica.domain_usages, claims


def _quantities(replica: NodeState) -> dict[str, Any]:
    fields, policy = quantities(replica), replica.policy
    disk_used = policy.reserved_disk_mb + replica.usage.disk_mb
    disk_mb = replica.topology.disk_mb if replica.topology else 0
    least = replica.disk_available_least
    free_disk = disk_mb - disk_used
    return {
        "free_ram_mb": fields["free_ram_mb"],
        "free_disk_mb": free_disk if least is None else min(free_disk, least * MB_IN_GB),
        "disk_mb_used": disk_used,
        "vcpus_used": fields["vcpus_used"],
        "stats": fields["stats"],
    }


def _described(replica: NodeState) -> dict[str, Any]:
    topology, policy = replica.topology, replica.policy
    if topology is None:
        return {}
    sets = policy.numa
    return {
        "vcpus_total": len(sets.shared(topology.cpus) | sets.dedicated(topology.cpus)),
        "total_usable_ram_mb": memory_mb(topology, policy),
        "total_usable_disk_gb": topology.disk_mb // MB_IN_GB,
        "hypervisor_type": topology.hypervisor_type,
        "hypervisor_version": topology.hypervisor_version,
        "cpu_info": topology.cpu_info,
        "supported_instances": topology.supported_hv_specs,
    }
