"""Kinds of devices: what is so of one of them is so of all, whoever asks."""

from __future__ import annotations

from typing import Any

from rtagent.model.base import Value
from rtagent.model.device import PciDevice
from rtagent.model.pci_devices import PciDevices
from rtagent.model.remembered import remembered


class Kind(Value, frozen=True, kw_only=True):
    """Devices that nothing tells apart but their addresses and their IOMMU groups.

    :ivar like: one of them. :ivar addresses: in order.
    """

    like: PciDevice
    addresses: tuple[str, ...]


@remembered
def kinds(devices: PciDevices) -> tuple[Kind, ...]:
    """Each device in exactly one, in the order of their first addresses."""
    found: dict[tuple[Any, ...], list[str]] = {}
    for address in sorted(devices):
        found.setdefault(_key(devices[address]), []).append(address)
    return tuple(Kind(like=devices[its[0]], addresses=tuple(its)) for its in found.values())


def worth(tracked: PciDevice) -> tuple[Any, ...]:
    """What tells one device from another for whoever may have either."""
    device = tracked.device
    return (
        device.vendor_id,
        device.product_id,
        device.numa_node,
        device.dev_type,
        device.parent_ifname,
        tracked.tags,
    )


def _key(tracked: PciDevice) -> tuple[Any, ...]:
    standing = (tracked.present, tracked.listed, tracked.quarantine)
    return (*worth(tracked), tracked.device.parent_addr, *standing)
