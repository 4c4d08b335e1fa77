"""Groups of interchangeable devices: classes, and pools as reported to schedulers.

Devices of one class differ only in address and IOMMU group. A pool is coarser: it counts the
available devices that a scheduler cannot distinguish, of one or more classes.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from rtagent.model.base import Value, grouped
from rtagent.model.derived import derived
from rtagent.model.device import STANDARD, PciDevice, PciDevices
from rtagent.pci.specs import tags_as_dict


class DeviceClass(Value, frozen=True, kw_only=True):
    """Devices that differ only in address and IOMMU group.

    :ivar example: one of them. :ivar addresses: in order.
    """

    example: PciDevice
    addresses: tuple[str, ...]


class DevicePool(Value, frozen=True, kw_only=True):
    """Available devices that a scheduler cannot distinguish.

    :ivar classes: of these devices.
    :ivar description: JSON primitives: Nova's PciDevicePool without its count, and without tags
        that have defaults.
    """

    classes: tuple[DeviceClass, ...]
    description: Mapping[str, Any]

    @property
    def count(self) -> int:
        """The number of devices."""
        return sum(len(each.addresses) for each in self.classes)

    @property
    def first_address(self) -> str:
        """The first of the addresses."""
        return min(each.addresses[0] for each in self.classes)

    def as_dict(self) -> dict[str, Any]:
        """Return JSON primitives: Nova's PciDevicePool, without tags that have defaults.

        All documents of a pool share the tags.
        """
        return {**self.description, "count": self.count}


@derived
def device_classes(devices: PciDevices) -> tuple[DeviceClass, ...]:
    """Return the classes of all recorded devices, ordered by their first addresses."""
    classes = grouped((_class_key(devices[address]), address) for address in sorted(devices))
    return tuple(
        DeviceClass(example=devices[addresses[0]], addresses=tuple(addresses))
        for addresses in classes.values()
    )


@derived
def class_places(devices: PciDevices) -> Mapping[str, int]:
    """Return the place in `device_classes` of the class of each device."""
    return {
        address: place
        for place, each in enumerate(device_classes(devices))
        for address in each.addresses
    }


@derived
def pool_places(devices: PciDevices) -> tuple[tuple[int, ...], ...]:
    """Return the classes of each pool, as their places in `device_classes`.

    Each device is in exactly one pool: the key consists of exactly the properties that a pool shows
    (LP2098496: with a longer key, devices were counted twice).
    """
    classes = enumerate(device_classes(devices))
    pools = grouped((_pool_key(each.example), place) for place, each in classes)
    return tuple(map(tuple, pools.values()))


def last_first(available: Iterable[DeviceClass]) -> tuple[DeviceClass, ...]:
    """Return the classes with the highest addresses of each of Nova's pools first, as Nova takes
    them. Its pools are the virtual functions of a card; any other device is one by itself.
    """
    return tuple(
        replace(part, addresses=part.addresses[::-1]) if part.example.device.parent_addr else part
        for part in available
    )


def pool_of(classes: Iterable[DeviceClass]) -> DevicePool | None:
    """Return the pool of the available devices of these classes; None if there are none."""
    available = tuple(each for each in classes if each.addresses)
    if not available:
        return None
    return DevicePool(classes=available, description=_description(available[0].example))


def _description(recorded: PciDevice) -> dict[str, Any]:
    device = recorded.device
    parent = {} if device.parent_ifname is None else {"parent_ifname": device.parent_ifname}
    # Ports ask for this tag, and plain devices are not for ports.
    local = {} if device.dev_type == STANDARD else {"remote_managed": "false"}
    return {
        "vendor_id": device.vendor_id,
        "product_id": device.product_id,
        "numa_node": device.numa_node,
        "tags": {
            "dev_type": device.dev_type,
            **parent,
            **local,
            **tags_as_dict(recorded.tags),
        },
    }


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
