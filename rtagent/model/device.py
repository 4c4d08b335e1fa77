"""Devices of the host that a guest can be given whole: what they are, and what the operator says.

A device has no owner here: who holds it is what the claims say, and only they.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, get_args

from msgspec import UNSET, UnsetType

from rtagent.model.base import Value

#: Nova's device types: a plain device, an SR-IOV physical function, one of its virtual functions,
#: and a virtual function that is bound to a vDPA driver.
STANDARD: Final = "type-PCI"
SRIOV_PF: Final = "type-PF"
SRIOV_VF: Final = "type-VF"
VDPA: Final = "vdpa"
DEV_TYPES: Final = (STANDARD, SRIOV_PF, SRIOV_VF, VDPA)

#: What is a part of a physical function, and goes when that is given away whole.
FUNCTIONS: Final = frozenset({SRIOV_VF, VDPA})

#: Who asks for a device: a flavor, by an alias, or a port.
Source = Literal["flavor_alias", "neutron_port"]

#: How near a device must be to its guest's cells.
PciNumaPolicy = Literal["required", "preferred", "legacy", "socket"]
PCI_NUMA_POLICIES: Final[tuple[str, ...]] = get_args(PciNumaPolicy)
#: A device that knows its NUMA node must be on one of the guest's; one that does not may be had.
LEGACY: Final = "legacy"


class MdevType(Value, frozen=True, kw_only=True):
    """A type of mediated device that a device can be split into.

    :ivar id: ``nvidia-11``. :ivar device_api: ``vfio-pci`` and the like.
    :ivar available_instances: how many more can be created now.
    """

    id: str
    device_api: str
    available_instances: int
    name: str = ""


class Mdev(Value, frozen=True, kw_only=True):
    """A mediated device that exists. :ivar parent_addr: of the device that makes it."""

    uuid: str | None
    type: str
    parent_addr: str


class Device(Value, frozen=True, kw_only=True):
    """A PCI device as the hypervisor shows it.

    :ivar address: ``dddd:bb:ss.f``, lower case. :ivar vendor_id: and product_id: four hex digits.
    :ivar parent_addr: of a virtual function: its physical function's address.
    :ivar numa_node: None: the device does not know.
    :ivar iommu_group: devices of one group are never given to two owners.
    :ivar capabilities: what is told of its parts, by part (``network``: the features).
    :ivar net_name: the host's name for its network interface, while the host drives it.
    :ivar parent_ifname: that of its physical function.
    :ivar card_serial_number: from the vital product data, its own or its physical function's.
    :ivar vdpa_dev: path of the character device of a vDPA device.
    """

    address: str
    vendor_id: str
    product_id: str
    dev_type: str = STANDARD
    parent_addr: str | None = None
    numa_node: int | None = None
    iommu_group: int | None = None
    capabilities: Mapping[str, tuple[str, ...]] = {}
    net_name: str | None = None
    parent_ifname: str | None = None
    mac: str | None = None
    card_serial_number: str | None = None
    vdpa_dev: str | None = None
    mdev_types: tuple[MdevType, ...] = ()

    @property
    def label(self) -> str:
        """Nova's label of a device of this make."""
        return f"label_{self.vendor_id}_{self.product_id}"

    def same_make(self, other: Device) -> bool:
        """Whether the other, at the same address, can be the same piece of hardware."""
        mine = (self.address, self.vendor_id, self.product_id)
        return mine == (other.address, other.vendor_id, other.product_id)


class Tags(Value, frozen=True, kw_only=True):
    """What a device specification says of the devices that it matches.

    :ivar physical_network: None is a value: a network without a physical one (tunnelled).
    :ivar managed: libvirt binds the device to its driver and back.
    :ivar one_time_use: nobody gets it a second time before the operator has cleared it.
    :ivar resource_class: and traits: as Placement names them.
    """

    physical_network: str | UnsetType | None = UNSET
    trusted: bool = False
    remote_managed: bool = False
    managed: bool = True
    live_migratable: bool = False
    one_time_use: bool = False
    resource_class: str | None = None
    traits: frozenset[str] = frozenset()


class PciDevice(Value, frozen=True, kw_only=True):
    """A device that the operator offers, or that is still held though he offers it no more.

    :ivar device: as last seen. :ivar tags: as the specification last said.
    :ivar present: it was there when the host was last seen whole.
    :ivar listed: a specification matches it.
    :ivar quarantine: why nobody gets it until the operator clears it, or None.
    """

    device: Device
    tags: Tags = Tags()
    present: bool = True
    listed: bool = True
    quarantine: str | None = None

    @property
    def address(self) -> str:
        """``dddd:bb:ss.f``."""
        return self.device.address

    @property
    def resource_class(self) -> str:
        """As Placement counts it: what the operator says, else one for its make."""
        make = f"CUSTOM_PCI_{self.device.vendor_id}_{self.device.product_id}".upper()
        return self.tags.resource_class or make


class AssignedDevice(Value, frozen=True, kw_only=True):
    """A device as a claim holds it: enough to put it into a guest whatever becomes of the record.

    :ivar request_id: of the request that it answers. :ivar requester_id: the port, if one asked.
    """

    address: str
    vendor_id: str
    product_id: str
    dev_type: str
    request_id: str
    alias_name: str | None = None
    requester_id: str | None = None
    source: Source = "flavor_alias"
    numa_node: int | None = None
    parent_addr: str | None = None
    managed: bool = True
    vdpa_dev: str | None = None

    @property
    def purpose(self) -> str:
        """What it is to its guest: the same before and after a resize, whatever the request's id
        is then."""
        return self.alias_name or self.request_id
