"""HostState: the whole truth about one node, immutable.

Usage is a fold over owners: each owner counts as the sum of its claims or as what its domain was
seen to use, whichever is larger, resource by resource. A Change folds anew, from zero, the owners
that it touches; amounts are integers and values are frozen, so replacing an owner's old sum by its
new one is exact. `check` folds everything from zero and compares.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from immutables import Map, MapMutation
from msgspec.structs import replace

from rtagent.errors import InvariantViolated
from rtagent.model import stats
from rtagent.model.base import Value
from rtagent.model.change import Change
from rtagent.model.claim import INCOMING, LIVE_STATES, PCI, Claim, Unit
from rtagent.model.device import FUNCTIONS
from rtagent.model.holding import Holding
from rtagent.model.migration import Migration
from rtagent.model.node import Node
from rtagent.model.owners import age, check_owner, owner_usage
from rtagent.model.pci_devices import PciDevices
from rtagent.model.policy import Policy
from rtagent.model.specific import SpecificInventory
from rtagent.model.topology import Topology
from rtagent.model.usage import NOTHING, Usage

_T = TypeVar("_T")

#: The key under which changes of the host itself are noted in ``touched``.
HOST = "host"


class HostState(Value, frozen=True, kw_only=True, dict=True):
    """:ivar revision: counts changes; each commit requires the one before.
    :ivar epoch: the writer's; a newer writer's is higher.
    :ivar owners: claim uuids by owner. :ivar holdings: by domain uuid.
    :ivar migrations: of the moves that claims here take part in, and of those that ended not long
        ago, by uuid: so that a call that comes again finds out that it has been served.
    :ivar units: the owner that holds each unit by a claim. Never two (P6).
    :ivar devices: by address: offered, or still held, or kept back. :ivar specific: likewise of
        specific resources, as last seen.
    :ivar touched: the revision at which an owner, a device (`device_key`) or `HOST` last changed.
        An entry outlives what it speaks of (a tombstone) until no audit runs whose base is older.
    :ivar floor: the revision that was loaded; what was touched before it is not known any more.
    :ivar counters: Nova's statistics, see `stats`.
    """

    node: Node
    policy: Policy
    revision: int = 0
    epoch: int = 0
    topology: Topology | None = None
    claims: Map[str, Claim] = Map()
    owners: Map[str, tuple[str, ...]] = Map()
    holdings: Map[str, Holding] = Map()
    migrations: Map[str, Migration] = Map()
    units: Map[Unit, str] = Map()
    devices: PciDevices = PciDevices()
    specific: tuple[SpecificInventory, ...] = ()
    touched: Map[str, int] = Map()
    floor: int = 0
    usage: Usage = NOTHING
    counters: Map[str, int] = Map()
    failed_builds: int = 0
    disk_available_least: int | None = None

    def __repr__(self) -> str:
        return (
            f"<HostState {self.node.hypervisor_hostname} r{self.revision} e{self.epoch}"
            f" claims={len(self.claims)} holdings={len(self.holdings)} used={self.usage}>"
        )

    def claims_of(self, owner_id: str) -> tuple[Claim, ...]:
        """The owner's live claims, in the order in which they were made."""
        return tuple(self.claims[uuid] for uuid in self.owners.get(owner_id, ()))

    def usage_of(self, owner_id: str) -> Usage:
        """What one owner counts for."""
        reuse = self.policy.same_host_resize_reuse
        return owner_usage(self.claims_of(owner_id), self.holdings.get(owner_id), reuse=reuse)

    def touched_since(self, key: str, revision: int) -> bool:
        """Whether an owner, a device or `HOST` may have changed after that revision."""
        return revision < self.floor or self.touched.get(key, 0) > revision

    def pruned(self, revision: int) -> HostState:
        """Without the notes that no audit based on that revision, or a later one, can ask for."""
        return replace(
            self, touched=Map({key: at for key, at in self.touched.items() if at > revision})
        )

    def fold(self, change: Change) -> HostState:
        """The state after the change, one revision on.

        :raises InvariantViolated: it gives a unit to two owners.
        """
        bare = self._changed(change)
        owners, revision = change.owners, bare.revision
        counters, touched = self.counters.mutate(), self.touched.mutate()
        units = self.units.mutate()
        usage = self.usage
        for owner in owners:
            usage = usage.minus(self.usage_of(owner))
            for unit in _units(self.claims_of(owner)):
                del units[unit]
            _touch_devices(touched, self, owner, revision)
            _add(counters, self.claims_of(owner), -1)
            touched[owner] = revision
        if change.topology is not None or change.policy is not None:
            touched[HOST] = revision
        for address in (*(each.address for each in change.devices), *change.device_removals):
            touched[device_key(address)] = revision
        for owner in owners:
            usage = usage.plus(bare.usage_of(owner))
            _add(counters, bare.claims_of(owner), 1)
            _hold(units, owner, bare.claims_of(owner))
            _touch_devices(touched, bare, owner, revision)
        if bare.policy.same_host_resize_reuse != self.policy.same_host_resize_reuse:
            usage = fold_usage(bare)  # what an owner counts for is another matter now
        return replace(
            bare,
            usage=usage,
            counters=counters.finish(),
            units=units.finish(),
            touched=touched.finish(),
        )

    def _changed(self, change: Change) -> HostState:
        """The parts that a change names, one revision on; what is derived of them is as it was."""
        return replace(
            self,
            revision=self.revision + 1,
            claims=_with(
                self.claims, (c.uuid for c in change.ends), {c.uuid: c for c in change.puts}
            ),
            owners=_with_owners(self.owners, change),
            holdings=_with(
                self.holdings, change.unholdings, {h.domain_uuid: h for h in change.holdings}
            ),
            migrations=_with(
                self.migrations, change.migration_removals, {m.uuid: m for m in change.migrations}
            ),
            devices=self.devices.changed(change.device_removals, change.devices),
            specific=_or(change.specific, self.specific),
            topology=_or(change.topology, self.topology),
            policy=_or(change.policy, self.policy),
            failed_builds=_or(change.failed_builds, self.failed_builds),
            disk_available_least=_or(change.disk_available_least, self.disk_available_least),
        )

    def check_owners(self, owners: Iterable[str]) -> None:
        """The invariants of these owners.

        :raises InvariantViolated:
        """
        for owner in owners:
            claims = self.claims_of(owner)
            check_owner(owner, claims)
            for claim in claims:
                _check_claim(self, owner, claim)

    def check(self) -> None:
        """Every invariant, everything folded from zero.

        :raises InvariantViolated:
        """
        self.check_owners(self.owners)
        indexed = sorted(uuid for uuids in self.owners.values() for uuid in uuids)
        if indexed != sorted(self.claims):
            raise InvariantViolated("the owners' index and the claims differ")
        usage = fold_usage(self)
        if usage != self.usage:
            raise InvariantViolated(f"usage is {self.usage}, the claims sum up to {usage}")
        if _units_checked(self) != self.units:
            raise InvariantViolated("the units' index and the claims differ")
        counters = stats.count(map(self.claims_of, self.owners))
        if counters != dict(self.counters):
            raise InvariantViolated("the statistics differ from a count of the instances")


def device_key(address: str) -> str:
    """The key under which changes of a device, or of who holds it, are noted in ``touched``."""
    return f"device:{address}"


def fold_usage(state: HostState) -> Usage:
    """The node's usage from zero."""
    total = NOTHING
    for owner in {*state.owners, *state.holdings}:
        total = total.plus(state.usage_of(owner))
    return total


def restore(
    blank: HostState, claims: Iterable[Claim], holdings: Iterable[Holding], revision: int
) -> HostState:
    """A state built from what a store holds, right or wrong: `HostState.check` judges it.

    :param blank: brings node, policy, epoch and host facts.
    """
    by_uuid = Map({claim.uuid: claim for claim in claims})
    owners: dict[str, tuple[str, ...]] = {}
    for claim in sorted(by_uuid.values(), key=age):
        owners[claim.owner_id] = (*owners.get(claim.owner_id, ()), claim.uuid)
    state = replace(
        blank,
        claims=by_uuid,
        owners=Map(owners),
        holdings=Map({holding.domain_uuid: holding for holding in holdings}),
        revision=revision,
        floor=revision,
        touched=Map(),
    )
    holders = {unit: o for o in state.owners for unit in _units(state.claims_of(o))}
    return replace(
        state,
        usage=fold_usage(state),
        units=Map(holders),
        counters=Map(stats.count(map(state.claims_of, state.owners))),
    )


def _units_checked(state: HostState) -> Map[Unit, str]:
    """Who holds what, from zero. :raises InvariantViolated: two owners hold one unit."""
    units = Map[Unit, str]().mutate()
    for owner in state.owners:
        _hold(units, owner, state.claims_of(owner))
    return units.finish()


def _units(claims: Iterable[Claim]) -> frozenset[Unit]:
    return frozenset[Unit]().union(*(claim.units for claim in claims))


def _hold(units: MapMutation[Unit, str], owner: str, claims: Iterable[Claim]) -> None:
    for unit in _units(claims):
        if unit in units:
            kind, name = unit
            raise InvariantViolated(f"{kind} {name} has two owners: {units[unit]} and {owner}")
        units[unit] = owner


def _check_claim(state: HostState, owner: str, claim: Claim) -> None:
    if claim.owner_id != owner:
        raise InvariantViolated(f"claim {claim.uuid} is indexed under another owner")
    if claim.state not in LIVE_STATES:
        raise InvariantViolated(f"claim {claim.uuid} is {claim.state} and still counted")
    if claim.node_uuid != state.node.uuid:
        raise InvariantViolated(f"claim {claim.uuid} belongs to node {claim.node_uuid}")
    if min(claim.vcpus, claim.memory_mb, claim.disk_mb) < 0:
        raise InvariantViolated(f"claim {claim.uuid} holds a negative amount")
    for device in claim.pci:
        if device.dev_type in FUNCTIONS and (PCI, device.parent_addr) in state.units:
            raise InvariantViolated(f"{device.address} is held, and its physical function too")
    if claim.revision > state.revision:
        raise InvariantViolated(f"claim {claim.uuid} is newer than the state")
    if claim.state == INCOMING and claim.migration_uuid not in state.migrations:
        raise InvariantViolated(f"claim {claim.uuid} is incoming, and of no migration known here")


def _with(items: Map[str, _T], gone: Iterable[str], new: Mapping[str, _T]) -> Map[str, _T]:
    """Without what is gone, and with what is new or changed."""
    after = items.mutate()
    for key in gone:
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


def _touch_devices(
    touched: MapMutation[str, int], state: HostState, owner: str, revision: int
) -> None:
    """Note that what an owner holds is, or was, in its hands."""
    holding = state.holdings.get(owner)
    claimed = (device.address for claim in state.claims_of(owner) for device in claim.pci)
    for address in (*claimed, *(holding.occupancy.devices if holding else ())):
        touched[device_key(address)] = revision


def _add(counters: MapMutation[str, int], claims: Sequence[Claim], sign: int) -> None:
    for key, number in stats.count([claims]).items():
        total = counters.get(key, 0) + sign * number
        if total:
            counters[key] = total
        else:
            del counters[key]


def _or(new: _T | None, old: _T) -> _T:
    return old if new is None else new
