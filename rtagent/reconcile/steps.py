"""Step: what an audit changes about one owner, one device, or the host; and the steps that an
observation calls for about devices, and about resources made from devices.
"""

from __future__ import annotations

from collections.abc import Iterator

from rtagent.model.assignment import ResourceInventory
from rtagent.model.base import Value
from rtagent.model.device import PciDevice
from rtagent.model.domain_usage import DomainUsage
from rtagent.model.migration import TakenOver
from rtagent.model.node_state import ASSIGNED_RESOURCES, NodeState, device_key
from rtagent.model.observation import Observation, Problem
from rtagent.model.topology import Topology
from rtagent.pci.allocations import whole_device_allocations
from rtagent.pci.assigned_resources import resource_users
from rtagent.pci.mdev import adopted_identifier, existing_identifiers, mdev_inventories
from rtagent.pci.placement_reporting import placement_errors
from rtagent.pci.pmem import present_inventories
from rtagent.pci.specs import device_errors, refresh


class ClaimTransition(Value, frozen=True, kw_only=True):
    """A transition of a claim that an audit plans.

    :ivar verb: of `transitions.LIFE_CYCLE`: ``appear``, ``expire``, ``suspect``, ``trust`` or
        ``evacuated``.
    :ivar reason: why, for the operator.
    :ivar taken_over: for ``evacuated``: by which node, and in which migration.
    """

    claim_uuid: str
    verb: str
    reason: str
    taken_over: TakenOver | None = None


class AuditStep(Value, frozen=True, kw_only=True):
    """Everything that an audit changes under one key. It applies only if the key is untouched since
    the audit's base.

    :ivar key: an owner's id, `device_key` of a device, `HOST`, or `ASSIGNED_RESOURCES`.
    :ivar joined: it is applied together with the step before it, which touches its key.
    :ivar domain_usage: usage of the owner's domain to record.
    :ivar removes_domain_usage: the recorded usage of the owner's domain is to be removed.
    :ivar device: a device to record. :ivar removed_device: the address of a record to be removed.
    :ivar resource_inventories: all inventories of assigned resources; None: unchanged.
    :ivar disk_available_least: GB; None: unchanged.
    """

    key: str
    joined: bool = False
    transitions: tuple[ClaimTransition, ...] = ()
    domain_usage: DomainUsage | None = None
    removes_domain_usage: bool = False
    device: PciDevice | None = None
    removed_device: str | None = None
    resource_inventories: tuple[ResourceInventory, ...] | None = None
    topology: Topology | None = None
    disk_available_least: int | None = None


class Outcome(Value, frozen=True, kw_only=True):
    """:ivar applied: keys. :ivar skipped: keys that were touched since the audit's base."""

    applied: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()

    def plus(self, other: Outcome) -> Outcome:
        """The outcome of both."""
        return Outcome(applied=self.applied + other.applied, skipped=self.skipped + other.skipped)


def device_steps(base: NodeState, seen: Observation) -> Iterator[AuditStep]:
    """One step for each device whose record changes.

    Devices that are used but not in the inventory come first: their relatives must not become
    available before it is known that they are used.
    """
    if seen.devices is None:
        return
    used = {
        address
        for domain in seen.domains.values()
        if domain.active
        for address in domain.occupancy.devices
    }
    in_use = used.union(allocation.address for allocation in whole_device_allocations(base))
    changes = refresh(base.devices, seen.devices, base.policy.pci.specs, in_use)
    for device in sorted(changes.puts, key=lambda each: (each.listed, each.address)):
        yield AuditStep(key=device_key(device.address), device=device)
    for address in changes.removals:
        yield AuditStep(key=device_key(address), removed_device=address)


def touched_devices(base: NodeState, step: AuditStep) -> frozenset[str]:
    """The keys of the devices that the owner of a step has, or had."""
    addresses = [device.address for claim in base.claims_of(step.key) for device in claim.pci]
    for usage in (base.domain_usages.get(step.key), step.domain_usage):
        addresses += usage.occupancy.devices if usage else ()
    return frozenset(map(device_key, addresses))


def resource_steps(base: NodeState, seen: Observation) -> Iterator[AuditStep]:
    """One step if the inventories of assigned resources have changed: mediated devices that the
    host's devices make, and persistent memory namespaces that the operator configures and the host
    has."""
    if seen.devices is None:
        mediated = tuple(each for each in base.resource_inventories if each.provider)
    else:
        in_use = resource_users(base).keys()
        known = in_use | {name for each in base.resource_inventories for name in each.identifiers}
        if seen.mdevs_of_others:
            known |= set(map(adopted_identifier, seen.mdevs))
        existing = existing_identifiers(base.node.uuid, seen.devices, seen.mdevs, known)
        types = base.policy.pci.mdev_types
        mediated = mdev_inventories(types, seen.devices, existing, in_use)
    pmem = present_inventories(base.policy.pci.pmem, base.resource_inventories, seen.namespaces)
    inventories: tuple[ResourceInventory, ...] = (*mediated, *pmem)
    if inventories != base.resource_inventories:
        yield AuditStep(key=ASSIGNED_RESOURCES, resource_inventories=inventories)


def device_problems(base: NodeState, seen: Observation) -> tuple[Problem, ...]:
    """Devices that match a device specification which is not valid for them: they are not in the
    inventory, or not reported to Placement."""
    policy, present = base.policy.pci, seen.devices or ()
    return tuple(
        Problem(item="[pci] device_spec", message=error.message)
        for error in (*device_errors(policy.specs, present), *placement_errors(policy, present))
    )
