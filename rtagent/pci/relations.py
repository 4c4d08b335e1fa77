"""Relations between devices: physical and virtual functions, and IOMMU groups.

A device that is in use can make related devices unavailable.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TypeVar

from rtagent.model.derived import derived
from rtagent.model.device import VF_TYPES, PciDevices

_K = TypeVar("_K")


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
