"""NodeState: the complete state of one node, immutable.

Usage is a fold over owners. Each owner counts as the sum of its claims or as the observed usage of
its domain, whichever is larger, resource by resource. `NodeState.fold` removes the owners that a
Change touches from the sums and adds them again from zero. Quantities are integers and values are
frozen, so this is exact. `NodeState.check` sums everything from zero and compares. `restore` builds
a state from what a store has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from immutables import Map
from msgspec.structs import replace

from rtagent.errors import InvariantViolated
from rtagent.model import stats
from rtagent.model.assignment import ResourceInventory
from rtagent.model.base import Value, made_from
from rtagent.model.change import Change
from rtagent.model.claim import INCOMING, LIVE_STATES, PCI, Claim, Unit
from rtagent.model.consumers import Outbox, outbox_after
from rtagent.model.device import VF_TYPES, PciDevices
from rtagent.model.domain_usage import DomainUsage
from rtagent.model.migration import Migration
from rtagent.model.node import Drain, Node
from rtagent.model.owners import OwnerSums, check_owner, creation_order, owner_usage
from rtagent.model.policy import Policy
from rtagent.model.stored import Position, Stored
from rtagent.model.topology import Topology
from rtagent.model.usage import NOTHING, Usage

_T = TypeVar("_T")

#: The key in ``touched`` for changes of the host itself.
HOST = "host"
#: The key for changes of the inventories of assigned resources.
ASSIGNED_RESOURCES = "assigned_resources"


def device_key(address: str) -> str:
    """Return the key in ``touched`` for changes of a device, or of its owner."""
    return f"device:{address}"


class NodeState(Value, frozen=True, kw_only=True, weakref=True):
    """The complete state of one node.

    :ivar revision: counts changes. Each commit requires the revision before it.
    :ivar epoch: the writer's epoch. A newer writer has a higher one.
    :ivar owners: claim uuids by owner, in order of creation. :ivar domain_usages: by domain uuid.
    :ivar migrations: by uuid: the moves of the claims on this node, and recently ended moves, by
        which a repeated call is recognised.
    :ivar units: the owner of each unit that a claim has. No unit has two owners (P6).
    :ivar devices: by address: available, allocated, or quarantined.
    :ivar resource_inventories: inventories of assignable resources, as last seen.
    :ivar former_pools: of a replica: parent device ("": the host) and class of assigned resources
        that claims have and no inventory has any more.
    :ivar touched: the revision at which an owner, a device (`device_key`) or `HOST` last changed.
        An entry outlives its subject (a tombstone) until no audit runs whose base is older.
    :ivar floor: the revision that was loaded. It is unknown what changed before that revision.
    :ivar counters: Nova's statistics, see `stats`.
    :ivar disk_available_least: GB.
    :ivar drain: None: the node does not drain.
    :ivar outbox: consumers whose allocations have to be written to Placement, by uuid.
    :ivar event_sequence: the number of the last event.
    :ivar damage: damaged rows, and :ivar unknown: reasons why it is not known what is held, see
        `Stored`. Both are as of the last load.
    """

    node: Node
    policy: Policy
    revision: int = 0
    epoch: int = 0
    topology: Topology | None = None
    claims: Map[str, Claim] = Map()
    owners: Map[str, tuple[str, ...]] = Map()
    domain_usages: Map[str, DomainUsage] = Map()
    migrations: Map[str, Migration] = Map()
    units: Map[Unit, str] = Map()
    devices: PciDevices = PciDevices()
    resource_inventories: tuple[ResourceInventory, ...] = ()
    former_pools: frozenset[tuple[str, str]] = frozenset()
    touched: Map[str, int] = Map()
    floor: int = 0
    usage: Usage = NOTHING
    counters: Map[str, int] = Map()
    failed_builds: int = 0
    disk_available_least: int | None = None
    drain: Drain | None = None
    outbox: Outbox = Map()
    event_sequence: int = 0
    damage: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return (
            f"<NodeState {self.node.hypervisor_hostname} r{self.revision} e{self.epoch}"
            f" claims={len(self.claims)} domain_usages={len(self.domain_usages)} used={self.usage}>"
        )

    @property
    def position(self) -> Position:
        """The epoch and the revision."""
        return Position(epoch=self.epoch, revision=self.revision)

    def claims_of(self, owner_id: str) -> tuple[Claim, ...]:
        """Return the owner's live claims, in order of creation."""
        return tuple(self.claims[uuid] for uuid in self.owners.get(owner_id, ()))

    def is_new(self, owner_id: str) -> bool:
        """Return whether the owner has nothing here: no live claim and no domain."""
        return owner_id not in self.owners and owner_id not in self.domain_usages

    def usage_of(self, owner_id: str) -> Usage:
        """Return the usage that one owner counts for."""
        return self._usage_of(owner_id, self.claims_of(owner_id))

    def usage_of_domain(self, owner_id: str) -> Usage:
        """Return the usage of an owner's domain, if that differs from its claims."""
        domain = self.domain_usages.get(owner_id)
        if domain is None:
            return NOTHING
        assigned = (claim.numa_topology for claim in self.claims_of(owner_id))
        floating = (each.allowed - each.taken for each in assigned if each is not None)
        return domain.usage(self.policy.numa, frozenset[int]().union(*floating))

    def touched_since(self, key: str, revision: int) -> bool:
        """Return whether an owner, a device or `HOST` may have changed after that revision."""
        return revision < self.floor or self.touched.get(key, 0) > revision

    def pruned(self, revision: int) -> NodeState:
        """Drop the entries of ``touched`` that no audit based on that revision or a later one
        needs.
        """
        return replace(
            self, touched=Map({key: at for key, at in self.touched.items() if at > revision})
        )

    def fold(self, change: Change) -> NodeState:
        """Return the state after the change, one revision later, unless it only announces events.

        :raises InvariantViolated: the change gives a unit to two owners.
        """
        after = self._with_parts(change)
        sums = OwnerSums(self.usage, self.units, self.counters)
        owners = change.owners | self._movers(change)
        if change.policy is not None:
            owners |= self._owners_under_policy()
        for owner in owners:
            sums.remove(*self._parts_of(owner))
        for owner in owners:
            sums.add(owner, *after._parts_of(owner))
        if sums.conflict is not None:
            raise InvariantViolated(sums.conflict)
        return replace(
            after,
            usage=sums.usage,
            counters=sums.counters,
            units=sums.units,
            touched=_with_touched(self, after, change),
            outbox=outbox_after(self, after, change),
        )

    def sums(self) -> OwnerSums:
        """Sum up all owners, from zero."""
        sums = OwnerSums()
        for owner in {*self.owners, *self.domain_usages}:
            sums.add(owner, *self._parts_of(owner))
        return sums

    def check(self) -> None:
        """Check every invariant, with everything summed from zero.

        :raises InvariantViolated:
        """
        if self.unknown:
            raise InvariantViolated(f"it is not known what is held: {'; '.join(self.unknown)}")
        self.check_owners(self.owners)
        indexed = sorted(uuid for uuids in self.owners.values() for uuid in uuids)
        if indexed != sorted(self.claims):
            raise InvariantViolated("the index of owners differs from the claims")
        sums = self.sums()
        if sums.usage != self.usage:
            raise InvariantViolated(f"usage is {self.usage}, the sum of the claims is {sums.usage}")
        if sums.conflict is not None:
            raise InvariantViolated(sums.conflict)
        if sums.units != self.units:
            raise InvariantViolated("the index of units differs from the claims")
        if sums.counters != self.counters:
            raise InvariantViolated("the statistics differ from a count of the instances")

    def check_owners(self, owners: Iterable[str]) -> None:
        """Check the invariants of these owners.

        :raises InvariantViolated:
        """
        for owner in owners:
            claims = self.claims_of(owner)
            check_owner(owner, claims)
            for claim in claims:
                _check_claim(self, owner, claim)

    def _parts_of(self, owner_id: str) -> tuple[tuple[Claim, ...], Usage, tuple[str, ...]]:
        """Return what an owner adds to the sums: its claims, its usage, its counters."""
        claims = self.claims_of(owner_id)
        return claims, self._usage_of(owner_id, claims), stats.keys(claims, self.migrations)

    def _usage_of(self, owner_id: str, claims: Sequence[Claim]) -> Usage:
        domain = self.usage_of_domain(owner_id)
        return owner_usage(claims, domain, reuse=self.policy.same_host_resize_reuse)

    def _movers(self, change: Change) -> frozenset[str]:
        """Return the owners of the moves whose records change: these say where a guest is."""
        removed = (self.migrations[uuid] for uuid in change.migration_removals)
        return frozenset(record.instance_uuid for record in (*change.migrations, *removed))

    def _owners_under_policy(self) -> frozenset[str]:
        """Return the owners whose usage depends on the policy: a domain's CPUs may be dedicated
        ones, and claims of one owner may count together. All others have one claim, and no domain
        that differs from it.
        """
        several = (owner for owner, uuids in self.owners.items() if len(uuids) > 1)
        return frozenset((*self.domain_usages, *several))

    def _with_parts(self, change: Change) -> NodeState:
        """Replace the parts that a change names, one revision later. The sums stay as they are."""
        return replace(
            self,
            revision=self.revision + (not change.announces),
            event_sequence=self.event_sequence + len(change.notifications),
            claims=_with(
                self.claims, (c.uuid for c in change.ends), {c.uuid: c for c in change.puts}
            ),
            owners=_with_owners(self.owners, change),
            domain_usages=_with(
                self.domain_usages,
                change.domain_usage_removals,
                {usage.domain_uuid: usage for usage in change.domain_usages},
            ),
            migrations=_with(
                self.migrations, change.migration_removals, {m.uuid: m for m in change.migrations}
            ),
            devices=self.devices.changed(change.device_removals, change.devices),
            resource_inventories=_or(change.resource_inventories, self.resource_inventories),
            topology=_or(change.topology, self.topology),
            policy=_or(change.policy, self.policy),
            failed_builds=_or(change.failed_builds, self.failed_builds),
            disk_available_least=_or(change.disk_available_least, self.disk_available_least),
            drain=None if change.undrained else _or(change.drain, self.drain),
        )


def restore(stored: Stored, policy: Policy) -> NodeState:
    """Build the state from what a store has, under a policy.

    Nothing is verified here: call `NodeState.check` on the result.
    """
    claims = {claim.uuid: claim for claim in stored.claims}
    owners: dict[str, tuple[str, ...]] = {}
    for claim in sorted(claims.values(), key=creation_order):
        owners[claim.owner_id] = (*owners.get(claim.owner_id, ()), claim.uuid)
    state = made_from(
        NodeState,
        stored,
        policy=policy,
        claims=Map(claims),
        owners=Map(owners),
        domain_usages=Map({usage.domain_uuid: usage for usage in stored.domain_usages}),
        migrations=Map({migration.uuid: migration for migration in stored.migrations}),
        devices=PciDevices({device.address: device for device in stored.devices}),
        floor=stored.revision,
        outbox=Map({row.consumer_uuid: row for row in stored.outbox}),
    )
    sums = state.sums()
    return replace(state, usage=sums.usage, units=sums.units, counters=sums.counters)


def _check_claim(state: NodeState, owner: str, claim: Claim) -> None:
    if claim.owner_id != owner:
        raise InvariantViolated(f"claim {claim.uuid} is indexed under another owner")
    if claim.state not in LIVE_STATES:
        raise InvariantViolated(f"claim {claim.uuid} is {claim.state} but still counted")
    if claim.node_uuid != state.node.uuid:
        raise InvariantViolated(f"claim {claim.uuid} belongs to node {claim.node_uuid}")
    quantities = (each.quantity for each in claim.quantities)
    if min(claim.vcpus, claim.memory_mb, claim.disk_mb, *quantities) < 0:
        raise InvariantViolated(f"claim {claim.uuid} has a negative quantity")
    for device in claim.pci:
        if device.dev_type in VF_TYPES and (PCI, device.parent_addr) in state.units:
            raise InvariantViolated(
                f"{device.address} and its physical function are both allocated"
            )
    if claim.revision > state.revision:
        raise InvariantViolated(f"claim {claim.uuid} is newer than the state")
    if claim.state == INCOMING and claim.migration_uuid not in state.migrations:
        raise InvariantViolated(f"claim {claim.uuid} is incoming, but has no migration record here")


def _with(items: Map[str, _T], removed: Iterable[str], new: Mapping[str, _T]) -> Map[str, _T]:
    after = items.mutate()
    for key in removed:
        del after[key]
    for key, item in new.items():
        after[key] = item
    return after.finish()


def _with_owners(owners: Map[str, tuple[str, ...]], change: Change) -> Map[str, tuple[str, ...]]:
    after = owners.mutate()
    for claim in change.ends:
        left = tuple(uuid for uuid in after[claim.owner_id] if uuid != claim.uuid)
        if left:
            after[claim.owner_id] = left
        else:
            del after[claim.owner_id]
    for claim in change.puts:
        had = after.get(claim.owner_id, ())
        if claim.uuid not in had:
            after[claim.owner_id] = (*had, claim.uuid)
    return after.finish()


def _with_touched(before: NodeState, after: NodeState, change: Change) -> Map[str, int]:
    """Note the new revision for everything that the change touches."""
    touched = before.touched.mutate()
    for owner in change.owners:
        touched[owner] = after.revision
        for address in (*_devices_of(before, owner), *_devices_of(after, owner)):
            touched[device_key(address)] = after.revision
    if change.topology is not None or change.policy is not None:
        touched[HOST] = after.revision
    if change.resource_inventories is not None:
        touched[ASSIGNED_RESOURCES] = after.revision
    for address in (*(each.address for each in change.devices), *change.device_removals):
        touched[device_key(address)] = after.revision
    return touched.finish()


def _devices_of(state: NodeState, owner: str) -> Iterable[str]:
    """Return the addresses of the devices that an owner has claimed or its domain uses."""
    usage = state.domain_usages.get(owner)
    claimed = (device.address for claim in state.claims_of(owner) for device in claim.pci)
    return (*claimed, *(usage.occupancy.devices if usage else ()))


def _or(new: _T | None, old: _T) -> _T:
    return old if new is None else new
