"""What Placement shall show of this host. Pure.

Placement is never more generous than the agent: totals are rounded down, reserved amounts up, and
what is used without a claim (foreign domains, drift), or kept idle beside one, is reserved, since
no allocation speaks of it. The root is the host itself; its children are devices.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from decimal import ROUND_FLOOR, Context
from fractions import Fraction

import os_resource_classes as orc
import os_traits

from rtagent.model.base import MB_IN_GB
from rtagent.model.change import Change
from rtagent.model.claim import Claim
from rtagent.model.host import HostState
from rtagent.model.inventory import Inventory, inventories
from rtagent.model.topology import Topology
from rtagent.model.usage import NOTHING, Usage
from rtagent.placement.devices import device_providers
from rtagent.placement.provider import Contents, Provider, Record, Tree
from rtagent.placement.units import root_units, unit_providers

#: Placement keeps ratios in single precision on some databases: MariaDB reads six digits back.
RATIO_DIGITS = Context(prec=6, rounding=ROUND_FLOOR)


#: An agent that replaces another on this host answers for these, and so withdraws the other's.
ROOT_RULED = Contents(
    classes=frozenset({orc.VCPU, orc.PCPU, orc.MEMORY_MB, orc.DISK_GB}),
    traits=frozenset({os_traits.COMPUTE_NODE, os_traits.COMPUTE_STATUS_DISABLED}),
)


def build(state: HostState, disabled: bool, hypervisor_up: bool) -> Tree | None:
    """The tree of a state; None while nothing is known of the host.

    :param disabled: the operator has disabled the service.
    """
    if state.topology is None:
        return None
    root = Provider(
        uuid=state.node.uuid,
        name=state.node.hypervisor_hostname,
        inventories={**dict(_records(state, state.topology)), **root_units(state)},
        traits=_traits(state, state.topology, disabled or not hypervisor_up),
        ruled=ROOT_RULED,
    )
    children = (*device_providers(state), *unit_providers(state))
    return Tree(revision=state.revision, providers=(root, *children))


def concerns(state: HostState, changes: Sequence[Change]) -> bool:
    """Whether the changes that led to the state may have changed its tree.

    A claim does so only where its owner's domain uses something else than the claims say, or where
    it is about host CPUs that no allocation speaks of, or about devices: their relatives may be
    had no more, or again. No changes at all: the state was loaded anew.
    """
    return not changes or any(
        change.topology is not None
        or change.policy is not None
        or _moves_devices(change)
        or change.unholdings
        or any(owner in state.holdings for owner in change.owners)
        or any(_contested(state, claim, 1) for claim in change.puts)
        or any(_contested(state, claim, 0) for claim in change.ends)
        for change in changes
    )


def foreign(state: HostState) -> Usage:
    """What is used beyond the claims: by domains without one, and by domains that drifted."""
    total = NOTHING
    for owner in state.holdings:
        claimed = _sum(claim.usage for claim in state.claims_of(owner))
        total = total.plus(state.usage_of(owner).minus(claimed))
    return total


def unspoken(state: HostState, topology: Topology) -> int:
    """Dedicated CPUs that nobody can have and that no allocation speaks of: a foreign domain is
    confined to them, or a claim keeps them idle beside its own."""
    used = state.usage.numa
    taken = used.pinned.keys() | used.kept.keys()
    spoken = (_own(claim) for claim in state.claims.values())
    return len(state.policy.numa.dedicated(topology.cpus) & taken.difference(*spoken))


def _moves_devices(change: Change) -> bool:
    """Whether a device, what devices make, or what a claim holds of either is another after it."""
    there = change.devices or change.device_removals or change.specific is not None
    return bool(there) or any(claim.pci or claim.resources for claim in change.puts + change.ends)


def _contested(state: HostState, claim: Claim, holders: int) -> bool:
    """Whether a claim keeps CPUs idle, or has CPUs that more than so many use by now."""
    if claim.numa_topology is None:
        return False
    pinned = state.usage.numa.pinned
    used = any(pinned.get(cpu, 0) > holders for cpu in _own(claim))
    return bool(claim.numa_topology.kept) or used


def _own(claim: Claim) -> frozenset[int]:
    """Host CPUs that its allocation counts as PCPU."""
    placed = claim.numa_topology
    return placed.taken - placed.kept if placed else frozenset()


def _sum(usages: Iterable[Usage]) -> Usage:
    total = NOTHING
    for usage in usages:
        total = total.plus(usage)
    return total


def _traits(state: HostState, topology: Topology, out: bool) -> frozenset[str]:
    remote = any(
        each.tags.remote_managed and each.present and each.listed for each in state.devices.values()
    )
    said = {
        os_traits.COMPUTE_NODE: True,
        os_traits.COMPUTE_STATUS_DISABLED: out,
        os_traits.COMPUTE_REMOTE_MANAGED_PORTS: remote,
    }
    return topology.traits.union(name for name, holds in said.items() if holds)


def _records(state: HostState, topology: Topology) -> Iterator[tuple[str, Record]]:
    offered, used = inventories(topology, state.policy), foreign(state)
    for resource, record in (
        (orc.VCPU, _record(offered.vcpus, used.vcpus / Fraction(offered.vcpus.ratio))),
        (orc.PCPU, _record(offered.pcpus, Fraction(unspoken(state, topology)))),
        (orc.MEMORY_MB, _record(offered.memory_mb, _whole(used.memory_mb, offered.memory_mb))),
        (orc.DISK_GB, _record(offered.disk_mb, _whole(used.disk_mb, offered.disk_mb), MB_IN_GB)),
    ):
        if record.total:
            yield resource, record


def _whole(used: int, inventory: Inventory) -> Fraction:
    """Memory and disk in use are gone whole, even where the ratio promises more than there is."""
    return used / min(Fraction(inventory.ratio), Fraction(1))


def _record(inventory: Inventory, beyond: Fraction, unit: int = 1) -> Record:
    total = inventory.total // unit
    return Record(
        total=total,
        # Placement answers 400 above the total.
        reserved=min(total, math.ceil((inventory.reserved + beyond) / unit)),
        max_unit=total,
        allocation_ratio=float(RATIO_DIGITS.create_decimal(inventory.ratio)),
    )
