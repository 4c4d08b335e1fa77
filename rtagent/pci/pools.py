"""Groups of interchangeable devices: classes, and pools as reported to schedulers.

Devices of one class differ only in address and IOMMU group. A pool is coarser: it counts the
available devices that a scheduler cannot distinguish, of one or more classes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec.structs import replace

from rtagent.model.base import Value
from rtagent.model.derived import derived
from rtagent.model.device import PciDevice, Tags
from rtagent.model.pci_devices import PciDevices
from rtagent.pci.specs import tags_as_dict


class DeviceClass(Value, frozen=True, kw_only=True):
    """Devices that differ only in address and IOMMU group.

    :ivar example: one of them. :ivar addresses: in order.
    """

    example: PciDevice
    addresses: tuple[str, ...]


class Pool(Value, frozen=True, kw_only=True):
    """Available devices that a scheduler cannot distinguish. :ivar classes: of these devices."""

    vendor_id: str
    product_id: str
    numa_node: int | None
    dev_type: str
    parent_ifname: str | None
    tags: Tags
    classes: tuple[DeviceClass, ...]

    @property
    def count(self) -> int:
        """The number of devices."""
        return sum(len(each.addresses) for each in self.classes)

    @property
    def addresses(self) -> tuple[str, ...]:
        """The addresses of the devices, in order."""
        return tuple(sorted(address for each in self.classes for address in each.addresses))

    def as_dict(self) -> dict[str, Any]:
        """Return JSON primitives: Nova's PciDevicePool, without tags that have defaults."""
        parent = {} if self.parent_ifname is None else {"parent_ifname": self.parent_ifname}
        tags = {
            "dev_type": self.dev_type,
            **parent,
            "remote_managed": "false",
            **tags_as_dict(self.tags),
        }
        return {
            "vendor_id": self.vendor_id,
            "product_id": self.product_id,
            "numa_node": self.numa_node,
            "tags": tags,
            "count": self.count,
        }


@derived
def device_classes(devices: PciDevices) -> tuple[DeviceClass, ...]:
    """Return the classes of all recorded devices, ordered by their first addresses."""
    found: dict[tuple[Any, ...], list[str]] = {}
    for address in sorted(devices):
        found.setdefault(_class_key(devices[address]), []).append(address)
    return tuple(
        DeviceClass(example=devices[addresses[0]], addresses=tuple(addresses))
        for addresses in found.values()
    )


def pools(available: Iterable[DeviceClass]) -> tuple[Pool, ...]:
    """Group the classes of `DeviceAllocations.available` into pools, in a stable order.

    Each device is in exactly one pool: the key consists of exactly the properties that a pool shows
    (LP2098496: with a longer key, devices were counted twice).
    """
    grouped: dict[tuple[Any, ...], list[DeviceClass]] = {}
    for device_class in available:
        grouped.setdefault(_pool_key(device_class.example), []).append(device_class)
    return tuple(sorted(map(_pool, grouped.values()), key=_first_address))


def last_first(available: Iterable[DeviceClass]) -> tuple[DeviceClass, ...]:
    """Return the classes with the highest addresses of each pool first, as Nova takes them. The
    order of the pools stays.
    """
    return tuple(
        replace(each, addresses=each.addresses[::-1])
        for pool in pools(available)
        for each in reversed(pool.classes)
    )


def _pool(classes: Sequence[DeviceClass]) -> Pool:
    first = classes[0].example
    return Pool(
        vendor_id=first.device.vendor_id,
        product_id=first.device.product_id,
        numa_node=first.device.numa_node,
        dev_type=first.device.dev_type,
        parent_ifname=first.device.parent_ifname,
        tags=first.tags,
        classes=tuple(classes),
    )


def _first_address(pool: Pool) -> str:
    return min(each.addresses[0] for each in pool.classes)


def _pool_key(recorded: PciDevice) -> tuple[Any, ...]:
    device = recorded.device
    return (
        device.vendor_id,
        device.product_id,
        device.numa_node,
        device.dev_type,
        device.parent_ifname,
        recorded.tags,
    )


def _class_key(recorded: PciDevice) -> tuple[Any, ...]:
    state = (recorded.present, recorded.listed, recorded.quarantine)
    return (*_pool_key(recorded), recorded.device.parent_addr, *state)
