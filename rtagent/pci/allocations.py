"""Device allocations: who uses which device, and which devices are available.

A physical function and its virtual functions are never in use together. Devices of one IOMMU group
are never used by two owners, because they could reach each other's memory.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence, Set
from functools import cached_property
from itertools import chain

from msgspec.structs import replace

from rtagent.model.base import Value
from rtagent.model.claim import LEASED_STATES, Claim
from rtagent.model.derived import derived
from rtagent.model.device import PciDevice
from rtagent.model.domain_usage import DomainUsage
from rtagent.model.node_state import NodeState
from rtagent.model.pci_devices import PciDevices
from rtagent.pci.device_states import (
    ALLOCATED,
    AVAILABLE,
    CLAIMED,
    UNAVAILABLE,
    UNCLAIMABLE,
    DeviceState,
    Unavailability,
    absence_reason,
    own_unavailability,
)
from rtagent.pci.pools import DeviceClass, device_classes
from rtagent.pci.relations import group_by, iommu_groups, physical_functions, with_related


class DeviceAllocation(Value, frozen=True, kw_only=True):
    """The use of one device by one owner.

    :ivar owner_id: an instance's uuid, which is also its domain's.
    :ivar allocated: the guest runs, or may run; False: the guest is being built.
    """

    address: str
    owner_id: str
    allocated: bool


class DeviceAllocations:
    """All devices of a host with their allocations, which determine their states. Immutable.

    :param allocations: the first allocation of a device names its owner in listings.
    """

    def __init__(self, devices: PciDevices, allocations: Iterable[DeviceAllocation]) -> None:
        self.devices = devices
        self._by_address: dict[str, list[DeviceAllocation]] = {}
        self._owners: set[str] = set()
        for allocation in allocations:
            self._by_address.setdefault(allocation.address, []).append(allocation)
            self._owners.add(allocation.owner_id)
        used = sorted(self._by_address)
        self._used_vfs = group_by(physical_functions(devices), used)
        self._used_in_group = group_by(iommu_groups(devices), used)
        self._states: dict[str, DeviceState] = {}

    def with_parents(self, addresses: Collection[str], owner_id: str) -> DeviceAllocations:
        """Return these allocations and those of parent devices, for an owner of their mdevs."""
        parents = (
            DeviceAllocation(address=address, owner_id=owner_id, allocated=False)
            for address in sorted(addresses)
        )
        return DeviceAllocations(self.devices, chain(*self._by_address.values(), parents))

    @property
    def used(self) -> Set[str]:
        """The addresses of all devices in use, recorded or not."""
        return self._by_address.keys()

    def allocations_of(self, address: str) -> Sequence[DeviceAllocation]:
        """Return the allocations of one device.

        There can be several: two claims of one owner may share a device, and a domain may use a
        device that another owner's claim has.
        """
        return self._by_address.get(address, ())

    def used_by(self, owners: Collection[str]) -> frozenset[str]:
        """Return the addresses of the devices that any of these owners uses."""
        return frozenset(
            allocation.address
            for allocations in self._by_address.values()
            for allocation in allocations
            if allocation.owner_id in owners
        )

    def has_used_vf(self, address: str) -> bool:
        """Whether a virtual function of this physical function is in use."""
        return address in self._used_vfs

    def of_functions(self, address: str) -> Iterator[DeviceAllocation]:
        """Yield the allocations that exclude one of this device, by whatever owner: those of its
        physical function and of its virtual functions.
        """
        physical_function = physical_functions(self.devices).get(address)
        if physical_function is not None:
            yield from self.allocations_of(physical_function)
        for virtual_function in self._used_vfs.get(address, ()):
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
        recorded = self.devices[address]
        own = own_unavailability(recorded)
        if own is None and address in self._affected:
            return next(self._unavailable_by_relation(recorded, owner_id), None)
        return own

    def available(
        self, owner_id: str | None = None, reusable: Collection[str] = ()
    ) -> tuple[DeviceClass, ...]:
        """Return the devices that are available to an owner, by class.

        :param owner_id: as for `unavailability`.
        :param reusable: addresses of devices that the owner uses and may reuse.
        """
        if reusable or owner_id in self._owners:
            return self._available(owner_id, reusable)
        return self._available_to_new_owners

    @cached_property
    def _available_to_new_owners(self) -> tuple[DeviceClass, ...]:
        return self._available(None, ())

    def _available(
        self, owner_id: str | None, reusable: Collection[str]
    ) -> tuple[DeviceClass, ...]:
        available = (
            replace(each, addresses=self._available_of_class(each, owner_id, reusable))
            for each in device_classes(self.devices)
        )
        return tuple(each for each in available if each.addresses)

    def _available_of_class(
        self, device_class: DeviceClass, owner_id: str | None, reusable: Collection[str]
    ) -> tuple[str, ...]:
        if own_unavailability(device_class.example) is not None:
            return ()
        used, affected = self.used, self._affected
        if affected.isdisjoint(device_class.addresses):
            return device_class.addresses
        return tuple(
            address
            for address in device_class.addresses
            if address not in affected
            or ((address not in used or address in reusable) and self._can_get(address, owner_id))
        )

    @cached_property
    def _affected(self) -> frozenset[str]:
        """The devices in use and the devices related to them. All other devices have the same state
        for every owner.
        """
        return frozenset(with_related(self.devices, self.used))

    def _can_get(self, address: str, owner_id: str | None) -> bool:
        own = all(each.owner_id == owner_id for each in self.allocations_of(address))
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

    def _unavailable_by_relation(
        self, recorded: PciDevice, owner_id: str | None
    ) -> Iterator[Unavailability]:
        physical_function = physical_functions(self.devices).get(recorded.address)
        if physical_function is not None:
            yield from self._unavailable_by_function([physical_function], "its physical function")
        used_vfs = self._used_vfs.get(recorded.address, ())
        yield from self._unavailable_by_function(used_vfs, "its virtual function")
        yield from self._unavailable_by_iommu_group(recorded, owner_id)

    def _unavailable_by_function(
        self, addresses: Iterable[str], relation: str
    ) -> Iterator[Unavailability]:
        blocking = _most_lasting(
            each for address in addresses for each in self.allocations_of(address)
        )
        if blocking is not None:
            reason = f"{relation} {blocking.address} is held by {blocking.owner_id}"
            yield Unavailability(state=_state_due_to(blocking), reason=reason)

    def _unavailable_by_iommu_group(
        self, recorded: PciDevice, owner_id: str | None
    ) -> Iterator[Unavailability]:
        group = iommu_groups(self.devices).get(recorded.address)
        related = self._used_in_group.get(group, ()) if group is not None else ()
        blocking = _most_lasting(
            allocation
            for address in related
            if address != recorded.address
            for allocation in self._by_address[address]
            if allocation.owner_id != owner_id
        )
        if blocking is not None:
            reason = f"{blocking.address} of its IOMMU group {group} is held by {blocking.owner_id}"
            yield Unavailability(state=_state_due_to(blocking), reason=reason)


@derived
def device_allocations(state: NodeState) -> DeviceAllocations:
    """Return the devices of a host with all their allocations."""
    return DeviceAllocations(state.devices, all_allocations(state))


def all_allocations(state: NodeState) -> Iterator[DeviceAllocation]:
    """Yield every device allocation. A user of one mdev also uses its parent device.

    Allocations of whole devices come first, and claims before domains, each ordered by owner.
    """
    yield from whole_device_allocations(state)
    yield from mdev_parent_allocations(state)


def mdev_parent_allocations(state: NodeState) -> Iterator[DeviceAllocation]:
    """Yield the allocations of devices of which mediated devices are in use."""
    for claim in _by_owner(claim for claim in state.claims.values() if claim.resources):
        for resource in claim.resources:
            if resource.parent_addr:
                yield _allocation_of_claim(claim, resource.parent_addr)
    with_mdevs = (each for each in state.domain_usages.values() if each.occupancy.mdev_parents)
    for usage in _by_uuid(with_mdevs):
        yield from _allocations_of_domain(usage, usage.occupancy.mdev_parents)


def whole_device_allocations(state: NodeState) -> Iterator[DeviceAllocation]:
    """Yield the allocations of whole devices, not of their mdevs."""
    for claim in _by_owner(claim for claim in state.claims.values() if claim.pci):
        for device in claim.pci:
            yield _allocation_of_claim(claim, device.address)
    with_devices = (each for each in state.domain_usages.values() if each.occupancy.devices)
    for usage in _by_uuid(with_devices):
        yield from _allocations_of_domain(usage, usage.occupancy.devices)


def _allocation_of_claim(claim: Claim, address: str) -> DeviceAllocation:
    return DeviceAllocation(
        address=address, owner_id=claim.owner_id, allocated=claim.state not in LEASED_STATES
    )


def _allocations_of_domain(
    domain: DomainUsage, addresses: Iterable[str]
) -> Iterator[DeviceAllocation]:
    """Yield the allocations of a domain. A domain that does not run uses nothing."""
    for address in sorted(addresses) if domain.active else ():
        yield DeviceAllocation(address=address, owner_id=domain.domain_uuid, allocated=True)


def _by_owner(claims: Iterable[Claim]) -> list[Claim]:
    return sorted(claims, key=lambda claim: claim.owner_id)


def _by_uuid(domains: Iterable[DomainUsage]) -> list[DomainUsage]:
    return sorted(domains, key=lambda domain: domain.domain_uuid)


def _most_lasting(allocations: Iterable[DeviceAllocation]) -> DeviceAllocation | None:
    """Return the allocation that a reason names: that of a running guest, if there is one."""
    found = list(allocations)
    return next((each for each in found if each.allocated), found[0] if found else None)


def _state_due_to(blocking: DeviceAllocation) -> str:
    """Return the state of a free device whose related device has this allocation."""
    return UNAVAILABLE if blocking.allocated else UNCLAIMABLE
