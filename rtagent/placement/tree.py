"""The tree of providers that Placement should have for this host. Pure.

Placement never grants more than the agent would: totals are rounded down, reserved quantities up.
What is used without a claim (by foreign domains, by drift) is reserved, and so are CPUs that a
claim keeps idle, because no allocation in Placement accounts for them. The root provider is the
host; its children are devices. Provider files may add to each of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction

import os_resource_classes as orc
import os_traits

from rtagent.model.change import Change
from rtagent.model.claim import Claim
from rtagent.model.inventory import Inventory, inventories
from rtagent.model.node_state import NodeState
from rtagent.model.topology import Topology
from rtagent.model.units import MB_IN_GB
from rtagent.model.usage import NOTHING, Usage
from rtagent.placement.devices import (
    device_providers,
    encryption_providers,
    resource_providers,
    root_resources,
)
from rtagent.placement.offers import extended
from rtagent.placement.provider import RATIO_DIGITS, Contents, InventoryRecord, Provider, Tree

#: Prefixes of the standard traits that only the agent of a hypervisor sets on a root provider. They
#: say what its guests can have and which CPU it has; nova-compute sets and withdraws them, too.
#: Other traits (``HW_NIC_*``, ``STORAGE_*``, ...) belong to operators and other services.
_OF_HYPERVISORS = ("COMPUTE_", "HW_ARCH_", "HW_CPU_")

#: What only the agent of a host sets on its root provider. An agent that replaces another publisher
#: on this host removes these where they are not true.
ROOT_EXCLUSIVE = Contents(
    classes=frozenset({orc.VCPU, orc.PCPU, orc.MEMORY_MB, orc.DISK_GB, orc.VGPU}),
    traits=frozenset(name for name in os_traits.get_traits() if name.startswith(_OF_HYPERVISORS)),
)


def build(state: NodeState, disabled: bool, hypervisor_up: bool) -> Tree | None:
    """Return the tree of a state; None before the first audit.

    :param disabled: an operator has disabled the service.
    """
    if state.topology is None:
        return None
    root = Provider(
        uuid=state.node.uuid,
        name=state.node.hypervisor_hostname,
        inventories={**dict(_records(state, state.topology)), **root_resources(state)},
        traits=_traits(state, state.topology, disabled or not hypervisor_up),
        exclusive=ROOT_EXCLUSIVE,
    )
    children = (*device_providers(state), *resource_providers(state), *encryption_providers(state))
    policy = state.policy.placement
    providers = tuple(extended(each, state.node, policy) for each in (root, *children))
    return Tree(revision=state.revision, providers=providers)


def affects_tree(state: NodeState, changes: Sequence[Change]) -> bool:
    """Whether the changes that led to the state may have changed its tree.

    A claim affects the tree only in three cases: the owner's domain uses something other than what
    its claims hold; the claim concerns host CPUs that no allocation accounts for; or it concerns
    devices, because related devices become unavailable or available again. An empty sequence means
    that the state was loaded from the store, which always affects the tree.
    """
    return not changes or any(
        change.topology is not None
        or change.policy is not None
        or change.drain is not None
        or change.undrained
        or change.concerns_devices
        or _writes_one_time_devices(state, change)
        or change.domain_usage_removals
        or any(owner in state.domain_usages for owner in change.owners)
        or any(_affects_reserved_cpus(state, claim, 1) for claim in change.puts)
        or any(_affects_reserved_cpus(state, claim, 0) for claim in change.ends)
        for change in changes
    )


def usage_beyond_claims(state: NodeState) -> Usage:
    """Return what is used beyond the claims: by foreign domains, and by domains that drifted."""
    total = NOTHING
    for owner in state.domain_usages:
        claimed = _sum(claim.usage for claim in state.claims_of(owner))
        total = total.plus(state.usage_of(owner).minus(claimed))
    return total


def unallocatable_cpus(state: NodeState, topology: Topology) -> int:
    """Count the dedicated CPUs that are unavailable and that no allocation accounts for.

    A foreign domain is confined to them, or a claim keeps them idle.
    """
    used = state.usage.numa
    occupied = used.pinned.keys() | used.kept.keys()
    allocated = (_allocated_cpus(claim) for claim in state.claims.values())
    return len(state.policy.numa.dedicated(topology.cpus) & occupied.difference(*allocated))


def _writes_one_time_devices(state: NodeState, change: Change) -> bool:
    """Whether allocations were written, or have to be, on a host with devices for one use: they are
    reserved once their allocation is written.
    """
    return bool(change.written or change.unwritten) and any(
        each.tags.one_time_use for each in state.devices.values()
    )


def _affects_reserved_cpus(state: NodeState, claim: Claim, users: int) -> bool:
    """Whether the claim keeps CPUs idle, or has CPUs with more than so many users."""
    if claim.numa_topology is None:
        return False
    pinned = state.usage.numa.pinned
    shared = any(pinned.get(cpu, 0) > users for cpu in _allocated_cpus(claim))
    return bool(claim.numa_topology.kept) or shared


def _allocated_cpus(claim: Claim) -> frozenset[int]:
    """Return the host CPUs that the claim's allocation in Placement counts as PCPU."""
    assignment = claim.numa_topology
    return assignment.taken - assignment.kept if assignment else frozenset()


def _sum(usages: Iterable[Usage]) -> Usage:
    total = NOTHING
    for usage in usages:
        total = total.plus(usage)
    return total


def _traits(state: NodeState, topology: Topology, disabled: bool) -> frozenset[str]:
    remote_managed = any(
        each.tags.remote_managed and each.present and each.listed for each in state.devices.values()
    )
    own = {
        os_traits.COMPUTE_NODE: True,
        os_traits.OWNER_NOVA: True,
        os_traits.COMPUTE_STATUS_DISABLED: disabled,
        os_traits.COMPUTE_REMOTE_MANAGED_PORTS: remote_managed,
        os_traits.COMPUTE_MEM_BACKING_FILE: bool(state.policy.numa.file_backed_memory_mb),
    }
    capable = topology.traits - state.policy.placement.withheld_traits
    return capable.union(name for name, true in own.items() if true)


def _records(state: NodeState, topology: Topology) -> Iterator[tuple[str, InventoryRecord]]:
    host, used = inventories(topology, state.policy), usage_beyond_claims(state)
    pcpus = Fraction(unallocatable_cpus(state, topology))
    for resource, record in (
        (orc.VCPU, _record(host.vcpus, used.vcpus / Fraction(host.vcpus.ratio))),
        (orc.PCPU, _record(host.pcpus, pcpus)),
        (orc.MEMORY_MB, _record(host.memory_mb, _unscaled(used.memory_mb, host.memory_mb))),
        (orc.DISK_GB, _record(host.disk_mb, _unscaled(used.disk_mb, host.disk_mb), MB_IN_GB)),
    ):
        shared = resource == orc.DISK_GB and state.policy.placement.disk_provider is not None
        if record.total and not shared:
            yield resource, record


def _unscaled(used: int, inventory: Inventory) -> Fraction:
    """Return the quantity to reserve for memory or disk in use.

    It is reserved in full even if the ratio is above 1: what is in use is not overcommitted. With a
    ratio below 1 more is reserved, because Placement multiplies what is not reserved by the ratio.
    """
    return used / min(Fraction(inventory.ratio), Fraction(1))


def _record(inventory: Inventory, beyond_claims: Fraction, unit: int = 1) -> InventoryRecord:
    total = inventory.total // unit
    return InventoryRecord(
        total=total,
        # Placement answers 400 if it is above the total.
        reserved=min(total, math.ceil((inventory.reserved + beyond_claims) / unit)),
        max_unit=total,
        allocation_ratio=float(RATIO_DIGITS.create_decimal(inventory.ratio)),
    )
