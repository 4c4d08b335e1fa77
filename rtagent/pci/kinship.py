"""Which devices stand in each other's way: functions of one device, members of one IOMMU group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from rtagent.model.device import FUNCTIONS
from rtagent.model.pci_devices import PciDevices
from rtagent.model.remembered import remembered

_K = TypeVar("_K")


@remembered
def wholes(devices: PciDevices) -> Mapping[str, str]:
    """Of each virtual function its physical one, which may not be in the record."""
    return {
        address: tracked.device.parent_addr
        for address, tracked in devices.items()
        if tracked.device.dev_type in FUNCTIONS and tracked.device.parent_addr is not None
    }


@remembered
def parts(devices: PciDevices) -> Mapping[str, list[str]]:
    """Of each physical function its virtual ones, in order."""
    return gathered(wholes(devices), sorted(devices))


@remembered
def groups(devices: PciDevices) -> Mapping[str, int]:
    """Of each device its IOMMU group, if it has one."""
    return {
        address: tracked.device.iommu_group
        for address, tracked in devices.items()
        if tracked.device.iommu_group is not None
    }


@remembered
def members(devices: PciDevices) -> Mapping[int, list[str]]:
    """Of each IOMMU group its devices, in order."""
    return gathered(groups(devices), sorted(devices))


def gathered(by: Mapping[str, _K], addresses: Iterable[str]) -> dict[_K, list[str]]:
    """Those of these addresses that have something, by what they have."""
    found: dict[_K, list[str]] = {}
    for address in addresses:
        if address in by:
            found.setdefault(by[address], []).append(address)
    return found
