"""Consumers: the allocations that Placement should have on this node's providers. Outbox: those
that have to be written. Pure.

The consumer is the instance. While a guest moves, what it has at its source belongs to the
migration, and what it has at its destination to the instance, as Nova does it. After an evacuation
both belong to the instance, because the source could not be asked. A consumer may have allocations
of other hosts, too: each agent knows and writes those on its own providers only.

A row of the outbox says that a consumer's allocations have changed, and since which revision. What
they should be is computed from the state when they are written, so a row never becomes outdated,
and writing it twice is harmless.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from itertools import chain
from typing import Protocol

import os_resource_classes as orc
from immutables import Map
from msgspec import UNSET

from rtagent.model.assignment import AssignedResource, ResourceInventory
from rtagent.model.base import Value
from rtagent.model.change import Change
from rtagent.model.claim import ATTACH, EVACUATION, MOVE_TYPES, OUTGOING, PCI, RESOURCE, Claim
from rtagent.model.device import VF_TYPES, AssignedDevice, Device, PciDevice
from rtagent.model.mem_encryption import MODELS, provider_suffix
from rtagent.model.migration import Migration
from rtagent.model.node import Node
from rtagent.model.owners import main_claims
from rtagent.model.policy import ManageAllocations, Policy
from rtagent.model.provider_names import device_suffix, mdev_suffix, provider_uuid
from rtagent.model.units import MB_IN_GB

#: The types of consumers, as Nova names them.
INSTANCE, MIGRATION = "INSTANCE", "MIGRATION"

#: Classes of which ``resources:CLASS`` in a flavor overrides what the flavor itself says.
OVERRIDABLE = frozenset({orc.VCPU, orc.MEMORY_MB, orc.DISK_GB})

#: Quantities by provider uuid and resource class. None is 0.
Parts = Mapping[str, Mapping[str, int]]

#: A provider's suffix and a resource class. For each, a unit is counted once.
_Pool = tuple[str, str]


class NodeClaims(Protocol):
    """The parts of a `NodeState` that determine allocations."""

    @property
    def node(self) -> Node: ...

    @property
    def policy(self) -> Policy: ...

    @property
    def migrations(self) -> Mapping[str, Migration]: ...

    @property
    def devices(self) -> Mapping[str, PciDevice]: ...

    @property
    def resource_inventories(self) -> tuple[ResourceInventory, ...]: ...

    @property
    def claims(self) -> Mapping[str, Claim]: ...

    def claims_of(self, owner_id: str) -> tuple[Claim, ...]: ...


class Consumer(Value, frozen=True, kw_only=True):
    """A consumer of this node's resources.

    :ivar uuid: of an instance or of a migration.
    :ivar parts: what Placement should have on this node's providers.
    """

    uuid: str
    consumer_type: str
    project_id: str | None
    user_id: str | None
    parts: Parts


def owner_of(state: NodeClaims, consumer_uuid: str) -> str:
    """Return the uuid of the instance: a migration's, or the consumer's own."""
    migration = state.migrations.get(consumer_uuid)
    return migration.instance_uuid if migration else consumer_uuid


def consumers_of(state: NodeClaims, owner_id: str) -> Mapping[str, Consumer]:
    """Return the consumers to which an owner's claims on this node belong, by uuid; those without
    an allocation are left out.
    """
    claims = _by_consumer(state, owner_id)
    here, reuse = claims.get(owner_id, []), state.policy.same_host_resize_reuse
    quantities_here, units_here = _quantities(here, reuse=reuse), _units(here)
    found: dict[str, Consumer] = {}
    for uuid, theirs in claims.items():
        quantities, units = _quantities(theirs, reuse=reuse), _units(theirs)
        if uuid != owner_id:
            # What both claims of a resize on one host share is counted once.
            quantities -= quantities_here if reuse else Counter()
            units = {name: unit for name, unit in units.items() if name not in units_here}
        if parts := _parts(state, quantities, units.values()):
            instance = theirs[0].instance
            found[uuid] = Consumer(
                uuid=uuid,
                consumer_type=INSTANCE if uuid == owner_id else MIGRATION,
                project_id=instance.project_id,
                user_id=instance.user_id,
                parts=parts,
            )
    return found


def own_providers(state: NodeClaims) -> frozenset[str]:
    """Return the uuids of all providers of this node, except a sharing provider of disk.

    Every known device has one, and each model of encrypted memory, whether or not it is reported
    now, because allocations of earlier claims may remain there.
    """
    placement = state.policy.placement
    found = {"", *placement.adopted, *(each.suffix for each in placement.additional)}
    found.update(map(provider_suffix, MODELS))
    for record in state.devices.values():
        found.add(_device_suffix(record.device))
    parents = {each.provider for each in state.resource_inventories}
    for claim in state.claims.values():
        found.update(_device_suffix(device) for device in claim.pci)
        found.update(each.suffix for each in claim.quantities)
        parents.update(unit.parent_addr or "" for unit in claim.resources)
    found.update(mdev_suffix(parent) for parent in parents if parent)
    return frozenset(provider_uuid(state.node, placement, each) for each in found)


def _by_consumer(state: NodeClaims, owner_id: str) -> dict[str, list[Claim]]:
    """Return an owner's claims by the uuid of their consumer.

    An attach claim has the consumer of the main claim to whose guest its devices were added.
    """
    claims = state.claims_of(owner_id)
    mains = main_claims(claims)
    found: dict[str, list[Claim]] = {}
    consumer = owner_id
    for claim in claims:
        if claim.kind != ATTACH:
            consumer = _consumer_of(state, claim, mains)
        found.setdefault(consumer, []).append(claim)
    return found


def _consumer_of(state: NodeClaims, claim: Claim, mains: Sequence[Claim]) -> str:
    """Return the uuid of a main claim's consumer."""
    if claim.state == OUTGOING:
        uuid, kind = claim.migration_uuid, None
    elif len(mains) > 1 and claim is mains[0] and mains[1].kind in MOVE_TYPES:
        uuid, kind = mains[1].migration_uuid, mains[1].kind
    else:
        return claim.owner_id
    record = state.migrations.get(uuid or "")
    if uuid is None or (record.migration_type if record else kind) == EVACUATION:
        return claim.owner_id
    return uuid


def _quantities(claims: Iterable[Claim], *, reuse: bool) -> Counter[_Pool]:
    """Return the quantities on the root provider, and those that provider files offer.

    :param reuse: of two main claims, the larger one counts, as it does for the node's usage.
    """
    mains, others = Counter[_Pool](), Counter[_Pool]()
    for claim in claims:
        if claim.kind == ATTACH:
            others += _quantities_of(claim)
        elif reuse:
            mains |= _quantities_of(claim)
        else:
            mains += _quantities_of(claim)
    return mains + others


def _quantities_of(claim: Claim) -> Counter[_Pool]:
    return Counter(
        {
            ("", orc.VCPU): claim.vcpus,
            ("", orc.PCPU): claim.pcpus,
            ("", orc.MEMORY_MB): claim.memory_mb,
            # Rounded up for each consumer, as Nova's flavors are.
            ("", orc.DISK_GB): -(-claim.disk_mb // MB_IN_GB),
            **{("", name): quantity for name, quantity in _overridden(claim).items()},
            **{(each.suffix, each.resource_class): each.quantity for each in claim.quantities},
        }
    )


def _overridden(claim: Claim) -> Counter[str]:
    """Return the quantities that ``resources:CLASS`` in the flavor sets instead of the guest's own:
    the scheduler allocates these, and the claim was compared with them. A mixed guest has its own
    of VCPU; a flavor that names PCPU, even 0, names all CPUs of another.
    """
    found = Counter[str]()
    if claim.kind == ATTACH or claim.quarantined:
        return found
    mixed = claim.vcpus and claim.pcpus
    for _, _, name, value in claim.flavor.in_request_groups:
        if name in OVERRIDABLE and not (mixed and name == orc.VCPU):
            found[name] += int(value)
        elif name == orc.PCPU and not mixed:
            found[orc.VCPU] += 0
    for name in found:
        extra = claim.extra_resource.get(name, 0)
        found[name] += extra if isinstance(extra, int) else 0
    return found


def _units(claims: Iterable[Claim]) -> dict[tuple[str, str], AssignedDevice | AssignedResource]:
    """Return devices and assigned resources by kind and name: one that two claims share is one."""
    found: dict[tuple[str, str], AssignedDevice | AssignedResource] = {}
    for claim in claims:
        found |= {(PCI, device.address): device for device in claim.pci}
        found |= {(RESOURCE, unit.identifier): unit for unit in claim.resources}
    return found


def _parts(
    state: NodeClaims,
    quantities: Mapping[_Pool, int],
    units: Iterable[AssignedDevice | AssignedResource],
) -> Parts:
    pools = Counter({pool: quantity for pool, quantity in quantities.items() if quantity})
    pools.update(chain.from_iterable(_pools(state, unit) for unit in units))
    found: dict[str, dict[str, int]] = {}
    for (suffix, resource_class), quantity in pools.items():
        provider = provider_uuid(state.node, state.policy.placement, suffix)
        if resource_class == orc.DISK_GB and not suffix:
            provider = state.policy.placement.disk_provider or provider
        found.setdefault(provider, {})[resource_class] = quantity
    return found


def _pools(state: NodeClaims, unit: AssignedDevice | AssignedResource) -> Iterator[_Pool]:
    """Yield the pool of a unit; nothing for a device that is not reported to Placement."""
    if isinstance(unit, AssignedResource):
        if unit.resource_class:  # not of a damaged claim
            yield (mdev_suffix(unit.parent_addr) if unit.parent_addr else ""), unit.resource_class
        return
    record = state.devices.get(unit.address)
    if record is None or not state.policy.pci.report_in_placement:
        return
    if record.tags.physical_network is UNSET:
        yield _device_suffix(unit), record.resource_class


def _device_suffix(device: Device | AssignedDevice) -> str:
    """Return the suffix of the provider on which a device is counted."""
    parent = device.parent_addr if device.dev_type in VF_TYPES else None
    return device_suffix(parent or device.address)


class DeletionReason(StrEnum):
    """How an instance has left the node for good. The RPC method's name contains the value."""

    EVACUATED = "evacuated"
    MIGRATED = "migrated"
    SHELVE_OFFLOADED = "shelve_offloaded"

    @property
    def method(self) -> str:
        """The RPC method."""
        return f"delete_allocation_for_{self.value}_instance"


class OutboxRow(Value, frozen=True, kw_only=True):
    """A consumer whose allocations have to be written.

    :ivar revision: of the node, at which they changed. :ivar at: the time of that change.
    :ivar request_id: the global request id of the call that changed them, or "".
    """

    consumer_uuid: str
    revision: int
    request_id: str
    at: datetime


Outbox = Map[str, OutboxRow]


class NodeOutbox(NodeClaims, Protocol):
    """The parts of a `NodeState` that determine its outbox."""

    @property
    def outbox(self) -> Outbox: ...

    @property
    def revision(self) -> int: ...


def outbox_after(before: NodeOutbox, after: NodeOutbox, change: Change) -> Outbox:
    """Return the outbox after a change. :param after: has everything but its outbox."""
    if after.policy.placement.manage_allocations == ManageAllocations.NO:
        return Map() if change.policy is not None else before.outbox
    unwritten = (*changed_consumers(before, after, change.owners), *change.unwritten)
    if not unwritten and not change.written:
        return before.outbox
    outbox = before.outbox.mutate()
    for uuid in change.written:
        outbox.pop(uuid, None)
    for uuid in unwritten:
        outbox[uuid] = OutboxRow(
            consumer_uuid=uuid, revision=after.revision, request_id=change.request_id, at=change.at
        )
    return outbox.finish()


def changed_consumers(
    before: NodeClaims, after: NodeClaims, owners: Iterable[str]
) -> Iterator[str]:
    """Yield the consumers of these owners whose allocations differ between two states."""
    for owner in owners:
        had, have = consumers_of(before, owner), consumers_of(after, owner)
        for uuid in {*had, *have}:
            if had.get(uuid) != have.get(uuid):
                yield uuid


def concerned_consumers(
    before: NodeClaims, after: NodeClaims, changes: Sequence[Change]
) -> frozenset[str]:
    """Return the consumers that `outbox_after` may add or remove for changes that lead from one
    state to the other and have no policy.
    """
    return frozenset(
        uuid
        for change in changes
        for uuid in (
            *change.owners,
            *change.written,
            *change.unwritten,
            *(claim.migration_uuid for claim in _claims(before, after, change)),
        )
        if uuid is not None
    )


def _claims(before: NodeClaims, after: NodeClaims, change: Change) -> Iterator[Claim]:
    """Yield every claim of the owners: the end of one claim changes the consumers of others, too.

    A claim that was made and ended between the two states is only in the change.
    """
    yield from change.puts
    yield from change.ends
    for owner in change.owners:
        yield from before.claims_of(owner)
        yield from after.claims_of(owner)
