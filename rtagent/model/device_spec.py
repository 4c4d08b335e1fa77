"""A device specification: which devices the operator offers, and what he says of them."""

from __future__ import annotations

from collections.abc import Iterable

from rtagent.errors import PciConfigInvalidSpec
from rtagent.model.address import EVERY, AddressPattern, parse_address
from rtagent.model.base import Value
from rtagent.model.device import SRIOV_PF, SRIOV_VF, VDPA, Device, Tags

OPTION = "device_spec"


class DeviceSpec(Value, frozen=True, kw_only=True):
    """One specification.

    :ivar index: its place in the option, for messages.
    :ivar vendor_id: and product_id: None is any. :ivar devname: None when `address` says it.
    """

    index: str
    vendor_id: str | None = None
    product_id: str | None = None
    address: AddressPattern = EVERY
    devname: str | None = None
    tags: Tags = Tags()

    def matches(self, device: Device) -> bool:
        """Whether it speaks of the device. One that names a physical function by its address or
        its interface speaks of that one's virtual functions too. A device that is managed remotely
        and has no serial number to be found by is not spoken of."""
        return (
            self.vendor_id in (None, device.vendor_id)
            and self.product_id in (None, device.product_id)
            and (self._at(device) if self.devname is None else self._named(device))
            and (not self.tags.remote_managed or bool(device.card_serial_number))
        )

    def _named(self, device: Device) -> bool:
        return self.devname in (device.net_name, device.parent_ifname)

    def _at(self, device: Device) -> bool:
        if self.address == EVERY:
            return True
        addresses = [device.address]
        if device.parent_addr is not None and self.address.single:
            addresses.append(device.parent_addr)
        return any(self.address.matches(parse_address(address)) for address in addresses)

    def violation(self, device: Device) -> PciConfigInvalidSpec | None:
        """What makes it wrong for a device that it matches."""
        if self.tags.one_time_use and device.dev_type in (SRIOV_VF, VDPA):
            key, rule = "one_time_use", f"is not for a virtual function, which {device.address} is"
        elif self.tags.remote_managed and device.dev_type == SRIOV_PF:
            key, rule = "remote_managed", f"is for virtual functions: {device.address} is none"
        else:
            return None
        return PciConfigInvalidSpec(
            group="pci", option=OPTION, index=self.index, key=key, value="yes", rule=rule
        )


def spec_of(specs: Iterable[DeviceSpec], device: Device) -> DeviceSpec | None:
    """The first that matches; the others are not asked."""
    return next((spec for spec in specs if spec.matches(device)), None)
