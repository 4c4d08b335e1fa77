"""``[pci] device_spec``: which devices guests may use, and the tags of these devices."""

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
