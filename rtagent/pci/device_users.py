"""How devices are related, which owners use them, and the states that follow.

A state is derived from the users of the device, of its physical function, of its virtual functions
and of its IOMMU group. It is never stored as a fact, so it cannot be stale (LP1969496: virtual
functions stayed unavailable after a crash).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, TypeVar

from immutables import Map

from rtagent.model.base import Value
from rtagent.model.derived import derived
from rtagent.model.device import VF_TYPES, PciDevice, PciDevices

_K = TypeVar("_K")

#: Free: any claim may use it.
AVAILABLE: Final = "available"

#: Used by a claim whose guest does not run yet.
CLAIMED: Final = "claimed"

#: Used by a claim whose guest runs, or by a domain without a claim.
ALLOCATED: Final = "allocated"

#: Not in use. The device has left the host or its specification. It stays recorded until the next
#: refresh, or until its quarantine ends.
REMOVED: Final = "removed"

#: Free, but a related device is claimed.
UNCLAIMABLE: Final = "unclaimable"

#: Free, but a related device is allocated, or the device is quarantined.
UNAVAILABLE: Final = "unavailable"

STATES: Final = (AVAILABLE, CLAIMED, ALLOCATED, REMOVED, UNCLAIMABLE, UNAVAILABLE)
_V = TypeVar("_V")
_NONE = frozenset[str]()


@derived
def physical_functions(devices: PciDevices) -> Mapping[str, str]:
    """Return the address of its physical function for each virtual function.

    The physical function need not be recorded.
    """
    return {
        address: recorded.device.parent_addr
        for address, recorded in devices.items()
        if recorded.device.dev_type in VF_TYPES and recorded.device.parent_addr is not None
    }


@derived
def virtual_functions(devices: PciDevices) -> Mapping[str, list[str]]:
    """Return the virtual functions of each physical function, in order."""
    return group_by(physical_functions(devices), sorted(devices))


@derived
def iommu_groups(devices: PciDevices) -> Mapping[str, int]:
    """Return the IOMMU group of each device that has one."""
    return {
        address: recorded.device.iommu_group
        for address, recorded in devices.items()
        if recorded.device.iommu_group is not None
    }


@derived
def devices_by_iommu_group(devices: PciDevices) -> Mapping[int, list[str]]:
    """Return the devices of each IOMMU group, in order."""
    return group_by(iommu_groups(devices), sorted(devices))


def with_related(devices: PciDevices, addresses: Collection[str]) -> set[str]:
    """Return the recorded devices whose state may depend on these devices.

    They are the devices themselves, their physical and virtual functions, and the devices of their
    IOMMU groups.
    """
    parents, children = physical_functions(devices), virtual_functions(devices)
    groups, grouped = iommu_groups(devices), devices_by_iommu_group(devices)
    found = set(addresses)
    for address in addresses:
        if address in children:
            found.update(children[address])
        if address in parents:
            found.add(parents[address])
        if address in groups:
            found.update(grouped[groups[address]])
    return {address for address in found if address in devices}


def group_by(keys: Mapping[str, _K], addresses: Iterable[str]) -> dict[_K, list[str]]:
    """Group the addresses by their keys; addresses without a key are left out."""
    grouped: dict[_K, list[str]] = {}
    for address in addresses:
        if address in keys:
            grouped.setdefault(keys[address], []).append(address)
    return grouped


class Unavailability(Value, frozen=True, kw_only=True):
    """Why a free device is unavailable. :ivar state: one of `STATES`, never `AVAILABLE`."""

    state: str
    reason: str


class DeviceState(Value, frozen=True, kw_only=True):
    """A device with its state, for listings.

    :ivar owner_id: the owner that uses the device, or None.
    :ivar reason: the reason of the state, or "" if the state needs no explanation.
    """

    device: PciDevice
    state: str
    owner_id: str | None = None
    reason: str = ""


def own_unavailability(recorded: PciDevice) -> Unavailability | None:
    """Return why the device itself is unavailable, regardless of related devices; None if it is
    available.
    """
    reason = absence_reason(recorded)
    if reason is not None:
        return Unavailability(state=REMOVED, reason=reason)
    if recorded.quarantine is not None:
        return Unavailability(state=UNAVAILABLE, reason=recorded.quarantine)
    return None


def absence_reason(recorded: PciDevice) -> str | None:
    """Return why a recorded device can no longer be assigned, or None.

    A device that is in use keeps its user, and is shown with this reason.
    """
    if not recorded.present:
        return "it has left the host"
    if not recorded.listed:
        return "no device_spec matches it any more"
    return None


class DeviceAllocation(Value, frozen=True, kw_only=True):
    """The use of one device by one owner.

    :ivar owner_id: an instance's uuid, which is also its domain's.
    :ivar allocated: the guest runs, or may run; False: the guest is being built.
    """

    address: str
    owner_id: str
    allocated: bool


class DeviceUsers(Value, frozen=True, kw_only=True):
    """The allocations of a host's devices.

    :ivar by_device: the allocations of each device in use, by address.
    :ivar by_owner: the addresses of the devices that each owner uses.
    :ivar by_function: the virtual functions in use of each physical function, in order.
    :ivar by_group: the devices in use of each IOMMU group, in order.
    """

    by_device: Map[str, tuple[DeviceAllocation, ...]]
    by_owner: Map[str, frozenset[str]]
    by_function: Map[str, list[str]]
    by_group: Map[int, list[str]]

    def changed(
        self, devices: PciDevices, allocations: Mapping[str, tuple[DeviceAllocation, ...]]
    ) -> DeviceUsers:
        """Return the users after those of some devices have changed.

        :param devices: of the host. :param allocations: by address: all allocations of each of
            these devices, or none.
        """
        by_device = _replaced(self.by_device, allocations)
        parents, groups = physical_functions(devices), iommu_groups(devices)
        functions, members = virtual_functions(devices), devices_by_iommu_group(devices)
        return DeviceUsers(
            by_device=by_device,
            by_owner=self._by_owner_after(allocations),
            by_function=_replaced(
                self.by_function, _in_use(by_device, parents, functions, allocations)
            ),
            by_group=_replaced(self.by_group, _in_use(by_device, groups, members, allocations)),
        )

    def _by_owner_after(
        self, allocations: Mapping[str, tuple[DeviceAllocation, ...]]
    ) -> Map[str, frozenset[str]]:
        new = _by_owner(allocations)
        before = (self.by_device.get(address, ()) for address in allocations)
        owners = {each.owner_id for of_device in before for each in of_device}.union(new)
        others = {each: self.by_owner.get(each, _NONE).difference(allocations) for each in owners}
        return _replaced(
            self.by_owner, {each: others[each] | new.get(each, _NONE) for each in owners}
        )


def users_of(devices: PciDevices, allocations: Iterable[DeviceAllocation]) -> DeviceUsers:
    """Return the users of a host's devices. Allocations of one device keep their order."""
    by_device: dict[str, list[DeviceAllocation]] = {}
    for allocation in allocations:
        by_device.setdefault(allocation.address, []).append(allocation)
    used = sorted(by_device)
    return DeviceUsers(
        by_device=Map({address: tuple(each) for address, each in by_device.items()}),
        by_owner=Map(_by_owner(by_device)),
        by_function=Map(group_by(physical_functions(devices), used)),
        by_group=Map(group_by(iommu_groups(devices), used)),
    )


def _in_use(
    used: Map[str, tuple[DeviceAllocation, ...]],
    keys: Mapping[str, _K],
    members: Mapping[_K, list[str]],
    changed: Iterable[str],
) -> dict[_K, list[str]]:
    """Return the devices in use, in order, for each key of the changed devices.

    :param keys: the key of each device. :param members: all devices of each key, in order.
    """
    affected = {keys[address] for address in changed if address in keys}
    return {key: [each for each in members[key] if each in used] for key in affected}


def _by_owner(allocations: Mapping[str, Sequence[DeviceAllocation]]) -> dict[str, frozenset[str]]:
    """Return the addresses by owner."""
    found = defaultdict[str, set[str]](set)
    for address, of_device in allocations.items():
        for each in of_device:
            found[each.owner_id].add(address)
    return {owner: frozenset(addresses) for owner, addresses in found.items()}


def _replaced(known: Map[_K, _V], changes: Mapping[_K, _V]) -> Map[_K, _V]:
    """Return a map with these values replaced. Empty values are removed."""
    after = known.mutate()
    for key, value in changes.items():
        if value:
            after[key] = value
        elif key in after:
            del after[key]
    return after.finish()
