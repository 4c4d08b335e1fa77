"""PCI devices that guests can use: hardware facts, the operator's tags, and claimed devices.

A device does not record its owner: only the claims say who uses a device.

``[pci] device_spec``: which devices guests may use, and the tags of these devices.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal, get_args

import os_traits
from immutables import Map
from msgspec import UNSET, UnsetType

from rtagent.errors import PciConfigInvalidSpec
from rtagent.model.address import EVERY, AddressPattern, parse_address
from rtagent.model.base import Value

#: Nova's device types: a plain device, an SR-IOV physical function (PF), a virtual function (VF),
#: and a virtual function that is bound to a vDPA driver.
STANDARD: Final = "type-PCI"
SRIOV_PF: Final = "type-PF"
SRIOV_VF: Final = "type-VF"
VDPA: Final = "vdpa"
DEV_TYPES: Final = (STANDARD, SRIOV_PF, SRIOV_VF, VDPA)

#: Types that are parts of a physical function, and unavailable while the latter is in use.
VF_TYPES: Final = frozenset({SRIOV_VF, VDPA})

#: The source of a device request: an alias in the flavor, or a Neutron port.
Source = Literal["flavor_alias", "neutron_port"]

#: The NUMA affinity policies: which NUMA nodes a device may have, relative to the host cells of its
#: guest.
PciNumaPolicy = Literal["required", "preferred", "legacy", "socket"]
PCI_NUMA_POLICIES: Final[tuple[str, ...]] = get_args(PciNumaPolicy)
#: A device with a known NUMA node must be on one of the guest's cells; others are accepted.
LEGACY: Final = "legacy"


#: Addresses of the root ports of PCI devices, by the address of the device. A device of a root
#: complex has none, and that of others can be unknown.
RootPorts = Map[str, str]
NO_ROOT_PORTS: Final[RootPorts] = Map()


class MdevType(Value, frozen=True, kw_only=True):
    """A mediated device type that a device supports.

    :ivar id: for example ``nvidia-11``. :ivar device_api: for example ``vfio-pci``.
    :ivar available_instances: how many more mediated devices can be created now.
    """

    id: str
    device_api: str
    available_instances: int
    name: str = ""


class Mdev(Value, frozen=True, kw_only=True):
    """An existing mediated device. :ivar parent_addr: the address of its parent device."""

    uuid: str | None
    type: str
    parent_addr: str


class Device(Value, frozen=True, kw_only=True):
    """A PCI device as the hypervisor reports it.

    :ivar address: ``dddd:bb:ss.f``, lower case.
    :ivar vendor_id: four hex digits. :ivar product_id: four hex digits.
    :ivar parent_addr: of a virtual function: the address of its physical function.
    :ivar numa_node: None: unknown.
    :ivar iommu_group: devices of one group are never assigned to two owners.
    :ivar capabilities: features by subsystem, for example ``network``.
    :ivar net_name: its network interface on the host, while a host driver is bound to it.
    :ivar parent_ifname: the network interface of its physical function.
    :ivar card_serial_number: from the vital product data of the device or of its physical function.
    :ivar vdpa_dev: the path of the character device of a vDPA device.
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
        """Nova's label for this vendor and product."""
        return f"label_{self.vendor_id}_{self.product_id}"

    def same_hardware(self, other: Device) -> bool:
        """Whether both can be the same card: address, vendor and product are equal."""
        identity = (self.address, self.vendor_id, self.product_id)
        return identity == (other.address, other.vendor_id, other.product_id)


class Tags(Value, frozen=True, kw_only=True):
    """The tags that a device specification sets for the devices that it matches.

    :ivar physical_network: UNSET: no network; None: a tunnelled network, without a physical one.
    :ivar managed: libvirt binds the device to its driver and back.
    :ivar one_time_use: after one use the device is quarantined until the operator clears it.
    :ivar resource_class: as Placement names it; None: one for vendor and product.
    :ivar traits: as Placement names them.
    """

    physical_network: str | UnsetType | None = UNSET
    trusted: bool = False
    remote_managed: bool = False
    managed: bool = True
    live_migratable: bool = False
    one_time_use: bool = False
    resource_class: str | None = None
    traits: frozenset[str] = frozenset()

    @property
    def provider_traits(self) -> frozenset[str]:
        """The traits of a provider of devices with these tags."""
        derived = {
            os_traits.HW_PCI_LIVE_MIGRATABLE: self.live_migratable,
            os_traits.HW_PCI_ONE_TIME_USE: self.one_time_use,
            os_traits.COMPUTE_MANAGED_PCI_DEVICE: True,
        }
        return self.traits.union(name for name, applies in derived.items() if applies)


class PciDevice(Value, frozen=True, kw_only=True):
    """A recorded device: one that a specification matches, or that is still in use or quarantined.

    :ivar device: as last seen. :ivar tags: of the last specification that matched.
    :ivar present: the last complete device listing of the host had it.
    :ivar listed: a specification matches it.
    :ivar quarantine: the reason why the device is unavailable until the operator clears it, or
        None.
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
        """The resource class in Placement: the operator's, or else one for vendor and product
        (Nova's name).
        """
        default = f"CUSTOM_PCI_{self.device.vendor_id}_{self.device.product_id}".upper()
        return self.tags.resource_class or default


class AssignedDevice(Value, frozen=True, kw_only=True):
    """A device as a claim records it: enough to assign it to a guest even if the device's record
    has changed or is gone.

    :ivar request_id: the id of the request that the device satisfies. :ivar requester_id: the port
        that requested it, if any.
    :ivar provider: the uuid of its resource provider; None: it was not reported to Placement.
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
    net_name: str | UnsetType = UNSET
    provider: str | None = None

    @property
    def purpose(self) -> str:
        """The purpose of the device. A resize keeps the purpose, although the request's id may
        change.
        """
        return self.alias_name or self.request_id


class DeviceCriteria(Value, frozen=True, kw_only=True):
    """One alternative of an alias or of a request; None accepts anything.

    :ivar dev_type: None accepts neither physical functions nor vDPA devices: a request must name
        these types.
    :ivar physical_network: UNSET accepts anything; None is a tunnelled network.
    :ivar remote_managed: False, also when the request does not say: remote-managed devices go only
        to requests that ask for them.
    """

    vendor_id: str | None = None
    product_id: str | None = None
    dev_type: str | None = None
    physical_network: str | UnsetType | None = UNSET
    trusted: bool | None = None
    remote_managed: bool = False
    live_migratable: bool | None = None
    resource_class: str | None = None
    traits: frozenset[str] = frozenset()
    parent_ifname: str | None = None

    def matches(self, candidate: PciDevice) -> bool:
        """Whether the device meets all the criteria."""
        device, tags = candidate.device, candidate.tags
        return (
            self.vendor_id in (None, device.vendor_id)
            and self.product_id in (None, device.product_id)
            and self._accepts_type(device.dev_type)
            and self.parent_ifname in (None, device.parent_ifname)
            and self._accepts_tags(tags)
            and (self.resource_class is None or self.resource_class == candidate.resource_class)
        )

    def _accepts_type(self, dev_type: str) -> bool:
        if self.dev_type is None:
            return dev_type not in (SRIOV_PF, VDPA)
        return self.dev_type == dev_type

    def _accepts_tags(self, tags: Tags) -> bool:
        return (
            _same_network(self.physical_network, tags.physical_network)
            and self.remote_managed == tags.remote_managed
            and self.trusted in (None, tags.trusted)
            and self.live_migratable in (None, tags.live_migratable)
            and (not self.traits or self.traits <= tags.provider_traits)
        )

    def __str__(self) -> str:
        """The main criteria, for refusals."""
        parts = [f"{self.vendor_id or '*'}:{self.product_id or '*'}"]
        if self.vendor_id is None and self.product_id is None:
            parts = []
        if self.dev_type is not None:
            parts.append(self.dev_type)
        if self.physical_network is not UNSET:
            parts.append(f"physical_network={self.physical_network}")
        if self.resource_class is not None:
            parts.append(self.resource_class)
        return " ".join(parts) or "any"


def _same_network(requested: str | UnsetType | None, tag: str | UnsetType | None) -> bool:
    """Compare names case-insensitively."""
    if requested is UNSET:
        return True
    if isinstance(requested, str) and isinstance(tag, str):
        return requested.lower() == tag.lower()
    return requested is tag


class PciDevices(Mapping[str, PciDevice]):
    """An immutable mapping from addresses to devices.

    All states between two changes of the devices share one mapping, so that values derived from it
    (`derived`) are computed once for all these states.
    """

    def __init__(self, known: Mapping[str, PciDevice] = Map()) -> None:
        self._known: Map[str, PciDevice] = known if isinstance(known, Map) else Map(known)

    def changed(self, removals: Sequence[str], puts: Sequence[PciDevice]) -> PciDevices:
        """Return the mapping without the removed addresses, with new and changed devices."""
        if not removals and not puts:
            return self
        after = self._known.mutate()
        for address in removals:
            del after[address]
        for device in puts:
            after[device.address] = device
        return PciDevices(after.finish())

    def __getitem__(self, address: str) -> PciDevice:
        return self._known[address]

    def __contains__(self, address: object) -> bool:
        return address in self._known

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


OPTION = "device_spec"


class DeviceSpec(Value, frozen=True, kw_only=True):
    """One device specification.

    :ivar index: its position in the option, for messages.
    :ivar vendor_id: None matches any. :ivar product_id: None matches any.
    :ivar devname: the name of a network interface; None: `address` selects the devices.
    """

    index: str
    vendor_id: str | None = None
    product_id: str | None = None
    address: AddressPattern = EVERY
    devname: str | None = None
    tags: Tags = Tags()

    def matches(self, device: Device) -> bool:
        """Whether the specification applies to the device.

        A specification that names a physical function, by its address or its interface, also
        matches the virtual functions of that device. A specification with `remote_managed` matches
        only devices with a serial number, by which their remote manager finds them.
        """
        return self.selects(device) and (
            not self.tags.remote_managed or bool(device.card_serial_number)
        )

    def selects(self, device: Device) -> bool:
        """Whether the keys that select devices apply to the device."""
        return (
            self.vendor_id in (None, device.vendor_id)
            and self.product_id in (None, device.product_id)
            and self._is_at(device)
        )

    @property
    def names_device(self) -> bool:
        """Whether it names one device, by its interface or by its whole address."""
        return self.devname is not None or self.address.single

    def _is_at(self, device: Device) -> bool:
        """Whether `devname` or `address` applies to the device."""
        if self.devname is not None:
            return self.devname in (device.net_name, device.parent_ifname)
        if self.address == EVERY:
            return True
        addresses = [device.address]
        if device.parent_addr is not None and self.address.single:
            addresses.append(device.parent_addr)
        return any(self.address.matches(parse_address(address)) for address in addresses)

    def error_for(self, device: Device) -> PciConfigInvalidSpec | None:
        """Return why the tags are not allowed for a device that matches, or None."""
        if self.tags.one_time_use and device.dev_type in (SRIOV_VF, VDPA):
            rule = f"is not supported for virtual functions; {device.address} is one"
            return self._invalid("one_time_use", rule)
        if self.tags.remote_managed and device.dev_type == SRIOV_PF:
            return self._remote_managed_error(device)
        return None

    def error_if_named(self, device: Device) -> PciConfigInvalidSpec | None:
        """Return why the specification is wrong if it names this device, or None.

        A physical function cannot be managed remotely, with or without a serial number. Its virtual
        functions have its vendor, and one product: with others, the specification matches nothing.
        """
        if not (self.tags.remote_managed and self.names_device and self._is_at(device)):
            return None
        if self.selects(device):
            is_pf = device.dev_type == SRIOV_PF
            return self._remote_managed_error(device) if is_pf else None
        if self.vendor_id not in (None, device.vendor_id):
            return self._other_id("vendor_id", self.vendor_id, device, device.vendor_id)
        if device.dev_type == SRIOV_PF:
            return None  # the product is that of its virtual functions
        return self._other_id("product_id", self.product_id, device, device.product_id)

    def _remote_managed_error(self, device: Device) -> PciConfigInvalidSpec:
        rule = f"is supported only for virtual functions; {device.address} is a physical function"
        return self._invalid("remote_managed", rule)

    def _other_id(
        self, key: str, value: str | None, device: Device, its_own: str
    ) -> PciConfigInvalidSpec:
        rule = f"matches no remote_managed device: {device.address}, which is named, has {its_own}"
        return self._invalid(key, rule, value)

    def _invalid(self, key: str, rule: str, value: str | None = "yes") -> PciConfigInvalidSpec:
        return PciConfigInvalidSpec(
            group="pci", option=OPTION, index=self.index, key=key, value=value, rule=rule
        )


def find_spec(specs: Iterable[DeviceSpec], device: Device) -> DeviceSpec | None:
    """Return the first specification that matches; later ones do not apply."""
    return next((spec for spec in specs if spec.matches(device)), None)
