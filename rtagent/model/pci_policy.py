"""The operator's configuration of PCI devices and of the resources that devices provide."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import UNSET, UnsetType

from rtagent.model.assigned_resources import ResourceInventory
from rtagent.model.base import Value
from rtagent.model.device_criteria import DeviceCriteria
from rtagent.model.device_spec import DeviceSpec


class Alias(Value, frozen=True, kw_only=True):
    """``[pci] alias``: a name by which flavors request devices.

    :ivar alternatives: a device must meet at least one of them.
    """

    name: str
    numa_policy: str
    alternatives: tuple[DeviceCriteria, ...]


#: By name.
Aliases = Mapping[str, Alias]


class EnabledMdevType(Value, frozen=True, kw_only=True):
    """A mediated device type that the operator has enabled.

    :ivar addresses: devices on which the type is enabled; None: every device that supports it.
    :ivar max_instances: per device; None: as many as the device supports.
    """

    type: str
    addresses: frozenset[str] | None
    resource_class: str
    max_instances: int | None


#: Which of equal devices a claim gets: the lowest addresses, or the highest (as in Nova).
DeviceOrder = Literal["first", "last"]


class PciPolicy(Value, frozen=True, kw_only=True):
    """Options of PCI devices, parsed.

    :ivar specs: ``[pci] device_spec``; the first that matches a device applies.
    :ivar aliases: ``[pci] alias``.
    :ivar mdev_types: ``[devices] enabled_mdev_types`` and the sections ``[mdev_<type>]``.
    :ivar pmem: ``[libvirt] pmem_namespaces``.
    :ivar report_in_placement: ``[pci] report_in_placement``.
    :ivar order: ``[claims] device_order``; unset if it is ``first``, as the release before this
        one does not have the field.
    """

    specs: tuple[DeviceSpec, ...] = ()
    aliases: Aliases = {}
    mdev_types: tuple[EnabledMdevType, ...] = ()
    pmem: tuple[ResourceInventory, ...] = ()
    report_in_placement: bool = False
    order: DeviceOrder | UnsetType = UNSET
