"""``[pci] device_spec``: which devices guests may use, and the tags of these devices."""

from __future__ import annotations

from collections.abc import Iterable

from rtagent.errors import PciConfigInvalidSpec
from rtagent.model.address import EVERY, AddressPattern, parse_address
from rtagent.model.base import Value
from rtagent.model.device import SRIOV_PF, SRIOV_VF, VDPA, Device, Tags

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
            and (self._matches_address(device) if self.devname is None else self._named(device))
        )

    @property
    def names_device(self) -> bool:
        """Whether it names one device, by its interface or by its whole address."""
        return self.devname is not None or self.address.single

    def _named(self, device: Device) -> bool:
        return self.devname in (device.net_name, device.parent_ifname)

    def _matches_address(self, device: Device) -> bool:
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

        A physical function cannot be managed remotely, with or without a serial number.
        """
        is_wrong = (
            self.tags.remote_managed
            and device.dev_type == SRIOV_PF
            and self.names_device
            and self.selects(device)
        )
        return self._remote_managed_error(device) if is_wrong else None

    def _remote_managed_error(self, device: Device) -> PciConfigInvalidSpec:
        rule = f"is supported only for virtual functions; {device.address} is a physical function"
        return self._invalid("remote_managed", rule)

    def _invalid(self, key: str, rule: str) -> PciConfigInvalidSpec:
        return PciConfigInvalidSpec(
            group="pci", option=OPTION, index=self.index, key=key, value="yes", rule=rule
        )


def find_spec(specs: Iterable[DeviceSpec], device: Device) -> DeviceSpec | None:
    """Return the first specification that matches; later ones do not apply."""
    return next((spec for spec in specs if spec.matches(device)), None)
