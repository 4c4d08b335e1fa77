"""Users of devices: the allocations, by what they are looked up by."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from immutables import Map

from rtagent.model.base import Value
from rtagent.model.device import PciDevices
from rtagent.pci.relations import (
    devices_by_iommu_group,
    group_by,
    iommu_groups,
    physical_functions,
    virtual_functions,
)

_K = TypeVar("_K")
_V = TypeVar("_V")

_NONE = frozenset[str]()


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


def _by_owner(
    allocations: Mapping[str, Sequence[DeviceAllocation]],
) -> dict[str, frozenset[str]]:
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
