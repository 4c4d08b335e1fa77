"""The operator's part in what guests may have of devices."""

from __future__ import annotations

from rtagent.model.alias import Aliases
from rtagent.model.base import Value
from rtagent.model.device_spec import DeviceSpec
from rtagent.model.specific import EnabledType, SpecificInventory


class PciPolicy(Value, frozen=True, kw_only=True):
    """:ivar specs: ``[pci] device_spec``, of which the first that matches counts.
    :ivar aliases: ``[pci] alias``, by name.
    :ivar mdev_types: ``[devices] enabled_mdev_types``, with their sections.
    :ivar pmem: ``[libvirt] pmem_namespaces``.
    :ivar report_in_placement: ``[pci] report_in_placement``.
    """

    specs: tuple[DeviceSpec, ...] = ()
    aliases: Aliases = {}
    mdev_types: tuple[EnabledType, ...] = ()
    pmem: tuple[SpecificInventory, ...] = ()
    report_in_placement: bool = False
