"""Device allocations: who uses which device, and which devices are available.

A physical function and its virtual functions are never in use together. Devices of one IOMMU group
are never used by two owners, because they could reach each other's memory.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from functools import cached_property
from itertools import chain
from operator import attrgetter

from msgspec.structs import replace

from rtagent.model.claim import LEASED_STATES, Claim
from rtagent.model.derived import derived
from rtagent.model.device import PciDevices
from rtagent.model.domain_usage import DomainUsage
from rtagent.model.node_state import NodeState
from rtagent.pci.device_users import (
    ALLOCATED,
    AVAILABLE,
    CLAIMED,
    UNAVAILABLE,
    UNCLAIMABLE,
    DeviceAllocation,
    DeviceState,
    Unavailability,
    absence_reason,
    group_by,
    iommu_groups,
    own_unavailability,
    physical_functions,
    users_of,
    with_related,
)
from rtagent.pci.pools import (
    DeviceClass,
    DevicePool,
    class_places,
    device_classes,
    pool_of,
    pool_places,
)


class DeviceAllocations:
    """All devices of a host with their allocations, which determine their states. Immutable.

    :param allocations: the first allocation of a device names its owner in listings.
    """

    def __init__(self, devices: PciDevices, allocations: Iterable[DeviceAllocation]) -> None:
        self.devices = devices
        self._parents, self._groups = physical_functions(devices), iommu_groups(devices)
        self._users = users_of(devices, allocations)
        self._states: dict[str, DeviceState] = {}

    def with_parents(self, addresses: Collection[str], owner_id: str) -> DeviceAllocations:
        """Return these allocations and those of parent devices, for an owner of their mdevs."""
        parents = (
            DeviceAllocation(address=address, owner_id=owner_id, allocated=False)
            for address in sorted(addresses)
        )
        return DeviceAllocations(self.devices, chain(*self._users.by_device.values(), parents))

    def changed(self, allocations: Mapping[str, tuple[DeviceAllocation, ...]]) -> DeviceAllocations:
        """Return the allocations after those of some devices have changed. What is known about all
        other devices stays, so that the costs do not grow with their number.

        :param allocations: by address: all allocations of each of these devices, or none.
        """
        after = copy(self)
        after._users = self._users.changed(self.devices, allocations)
        after._states = {}
        related = with_related(self.devices, allocations)
        after._available_to_new_owners = after._made_anew(self._available_to_new_owners, related)
        after._pools = after._pools_after(self)
        return after

    def allocations_of(self, address: str) -> Sequence[DeviceAllocation]:
        """Return the allocations of one device.

        There can be several: two claims of one owner may share a device, and a domain may use a
        device that another owner's claim has.
        """
        return self._users.by_device.get(address, ())

    def used_by(self, owners: Collection[str]) -> frozenset[str]:
        """Return the addresses of the devices that any of these owners uses."""
        return frozenset[str]().union(*(self._users.by_owner.get(owner, ()) for owner in owners))

    def has_used_vf(self, address: str) -> bool:
        """Whether a virtual function of this physical function is in use."""
        return address in self._users.by_function

    def of_functions(self, address: str) -> Iterator[DeviceAllocation]:
        """Yield the allocations that exclude one of this device, by whatever owner: those of its
        physical function and of its virtual functions.
        """
        physical_function = self._parents.get(address)
        if physical_function is not None:
            yield from self.allocations_of(physical_function)
        for virtual_function in self._users.by_function.get(address, ()):
            yield from self.allocations_of(virtual_function)

    def state(self, address: str) -> DeviceState:
        """Return the state of a recorded device."""
        if address not in self._states:
            self._states[address] = self._state(address)
        return self._states[address]

    def unavailability(self, address: str, owner_id: str | None = None) -> Unavailability | None:
        """Return why this owner cannot get a recorded device, or None.

        Allocations of the device itself are not considered, only those of related devices.

        :param owner_id: None: an owner that uses no device yet.
        """
        own = own_unavailability(self.devices[address])
        return own or self._unavailable_by_relation(address, owner_id)

    def available(
        self, owner_id: str | None = None, reusable: Collection[str] = ()
    ) -> tuple[DeviceClass, ...]:
        """Return the devices that are available to an owner, by class.

        :param owner_id: as for `unavailability`.
        :param reusable: addresses of devices that the owner uses and may reuse.
        """
        classes = self._available_to_new_owners
        own = frozenset[str]() if owner_id is None else self.used_by([owner_id])
        if own or reusable:
            related = with_related(self.devices, own.union(reusable))
            classes = self._made_anew(classes, related, owner_id, reusable)
        return tuple(each for each in classes if each.addresses)

    def pools(self) -> tuple[DevicePool, ...]:
        """Return the pools of the devices that are available to new owners, in a stable order."""
        pools = (each for each in self._pools if each is not None)
        return tuple(sorted(pools, key=attrgetter("first_address")))

    @cached_property
    def _pools(self) -> tuple[DevicePool | None, ...]:
        """The pool of each of `pool_places`, None where no device is available."""
        classes = self._available_to_new_owners
        return tuple(
            pool_of(classes[place] for place in places) for places in pool_places(self.devices)
        )

    def _pools_after(self, before: DeviceAllocations) -> tuple[DevicePool | None, ...]:
        """Return the pools, of which those stay whose classes are those of `before`."""
        had, have = before._available_to_new_owners, self._available_to_new_owners
        return tuple(
            known
            if all(have[place] is had[place] for place in places)
            else pool_of(have[place] for place in places)
            for known, places in zip(before._pools, pool_places(self.devices), strict=True)
        )

    @cached_property
    def _available_to_new_owners(self) -> tuple[DeviceClass, ...]:
        """The available devices of each class of `device_classes`, possibly none."""
        classes = tuple(
            each if own_unavailability(each.example) is None else replace(each, addresses=())
            for each in device_classes(self.devices)
        )
        return self._made_anew(classes, with_related(self.devices, self._users.by_device))

    def _made_anew(
        self,
        classes: Sequence[DeviceClass],
        addresses: Iterable[str],
        owner_id: str | None = None,
        reusable: Collection[str] = (),
    ) -> tuple[DeviceClass, ...]:
        """Return the available devices by class, with these recorded devices examined anew.

        :param classes: the available devices by class, as far as the others are concerned.
        """
        after, places = list(classes), class_places(self.devices)
        for place, members in group_by(places, addresses).items():
            others = set(after[place].addresses).difference(members)
            available = (each for each in members if self._can_get(each, owner_id, reusable))
            after[place] = replace(after[place], addresses=tuple(sorted(others.union(available))))
        return tuple(after)

    def _can_get(self, address: str, owner_id: str | None, reusable: Collection[str]) -> bool:
        allocations = self.allocations_of(address)
        if allocations and address not in reusable:
            return False
        own = all(each.owner_id == owner_id for each in allocations)
        return own and self.unavailability(address, owner_id) is None

    def _state(self, address: str) -> DeviceState:
        recorded = self.devices[address]
        allocations = self.allocations_of(address)
        if allocations:
            return DeviceState(
                device=recorded,
                state=ALLOCATED if any(each.allocated for each in allocations) else CLAIMED,
                owner_id=allocations[0].owner_id,
                reason=absence_reason(recorded) or "",
            )
        unavailability = self.unavailability(address)
        if unavailability is None:
            return DeviceState(device=recorded, state=AVAILABLE)
        return DeviceState(
            device=recorded, state=unavailability.state, reason=unavailability.reason
        )

    def _unavailable_by_relation(self, address: str, owner_id: str | None) -> Unavailability | None:
        users = self._users
        physical_function, group = self._parents.get(address), self._groups.get(address, -1)
        functions = users.by_function.get(address, ())
        # Most devices have no related one in use, and a claim examines many devices.
        if not (functions or physical_function in users.by_device or group in users.by_group):
            return None
        members = [each for each in users.by_group.get(group, ()) if each != address]
        # Functions exclude each other whoever has them, members of a group only another owner's.
        for relation, related, exempt in (
            ("its physical function {}", [physical_function] if physical_function else [], None),
            ("its virtual function {}", functions, None),
            (f"{{}} of its IOMMU group {group}", members, owner_id),
        ):
            blocking = _most_lasting(
                allocation
                for each in related
                for allocation in users.by_device.get(each, ())
                if allocation.owner_id != exempt
            )
            if blocking is not None:
                holder = relation.format(blocking.address)
                return Unavailability(
                    state=UNAVAILABLE if blocking.allocated else UNCLAIMABLE,
                    reason=f"{holder} is held by {blocking.owner_id}",
                )
        return None


@derived
def device_allocations(state: NodeState) -> DeviceAllocations:
    """Return the devices of a host with all their allocations."""
    return DeviceAllocations(state.devices, all_allocations(state))


def allocations_after(
    known: DeviceAllocations, after: NodeState, owners: Collection[str]
) -> DeviceAllocations:
    """Return `device_allocations` of a state, derived from those of the state before it.

    :param known: those of the state before. They are returned if none of the owners uses a device.
    :param after: with the same devices. :param owners: those whose claims or domains differ.
    """
    own = (each.address for each in _allocations_by(after, owners))
    changed: dict[str, list[DeviceAllocation]] = {
        address: [] for address in known.used_by(owners).union(own)
    }
    if not changed:
        return known
    others = {each.owner_id for address in changed for each in known.allocations_of(address)}
    for allocation in _allocations_by(after, others.union(owners)):
        if allocation.address in changed:
            changed[allocation.address].append(allocation)
    return known.changed({address: tuple(each) for address, each in changed.items()})


def all_allocations(state: NodeState) -> Iterator[DeviceAllocation]:
    """Yield every device allocation. A user of one mdev also uses its parent device.

    Allocations of whole devices come first, and claims before domains, each ordered by owner.
    """
    yield from whole_device_allocations(state)
    yield from mdev_parent_allocations(state)


def mdev_parent_allocations(state: NodeState) -> Iterator[DeviceAllocation]:
    """Yield the allocations of devices of which mediated devices are in use."""
    return _mdev_parents(state.claims.values(), state.domain_usages.values())


def whole_device_allocations(state: NodeState) -> Iterator[DeviceAllocation]:
    """Yield the allocations of whole devices, not of their mdevs."""
    return _whole_devices(state.claims.values(), state.domain_usages.values())


def _allocations_by(state: NodeState, owners: Collection[str]) -> Iterator[DeviceAllocation]:
    """Yield the allocations of these owners, in the order of `all_allocations`."""
    claims = [claim for owner in owners for claim in state.claims_of(owner)]
    domains = [state.domain_usages[owner] for owner in owners if owner in state.domain_usages]
    yield from _whole_devices(claims, domains)
    yield from _mdev_parents(claims, domains)


def _whole_devices(
    claims: Iterable[Claim], domains: Iterable[DomainUsage]
) -> Iterator[DeviceAllocation]:
    return _allocations(
        ((claim, [device.address for device in claim.pci]) for claim in claims if claim.pci),
        ((domain, domain.occupancy.devices) for domain in domains),
    )


def _mdev_parents(
    claims: Iterable[Claim], domains: Iterable[DomainUsage]
) -> Iterator[DeviceAllocation]:
    return _allocations(
        (
            (claim, [unit.parent_addr for unit in claim.resources if unit.parent_addr])
            for claim in claims
            if claim.resources
        ),
        ((domain, domain.occupancy.mdev_parents) for domain in domains),
    )


def _allocations(
    claims: Iterable[tuple[Claim, Collection[str]]],
    domains: Iterable[tuple[DomainUsage, Collection[str]]],
) -> Iterator[DeviceAllocation]:
    """Yield the allocations of these addresses. A domain that does not run uses nothing."""
    # Most guests have none, and are not sorted.
    of_claims = [(claim, used) for claim, used in claims if used]
    of_domains = [(domain, used) for domain, used in domains if used and domain.active]
    for claim, addresses in sorted(of_claims, key=lambda held: held[0].owner_id):
        allocated = claim.state not in LEASED_STATES
        for address in addresses:
            yield DeviceAllocation(address=address, owner_id=claim.owner_id, allocated=allocated)
    for domain, used in sorted(of_domains, key=lambda held: held[0].domain_uuid):
        for address in sorted(used):
            yield DeviceAllocation(address=address, owner_id=domain.domain_uuid, allocated=True)


def _most_lasting(allocations: Iterable[DeviceAllocation]) -> DeviceAllocation | None:
    """Return the allocation that a reason names: that of a running guest, if there is one."""
    found = list(allocations)
    return next((each for each in found if each.allocated), found[0] if found else None)
