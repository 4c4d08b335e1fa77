"""``[pci] device_spec``: which devices the operator offers, and what he says of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from msgspec import UNSET, UnsetType

from rtagent.errors import PciConfigInvalidSpec
from rtagent.model.base import Value
from rtagent.model.device import SRIOV_PF, SRIOV_VF, VDPA, Device, Tags
from rtagent.pci import words
from rtagent.pci.address import (
    ANY,
    EVERY,
    AddressPattern,
    BadAddress,
    parse_address,
    parse_glob,
    parse_regex,
)
from rtagent.pci.document import Document, documents

OPTION = "device_spec"

#: What makes a device match.
MATCHING = ("vendor_id", "product_id", "address", "devname")
#: What is said of one that does.
TAGS = (
    "physical_network",
    "trusted",
    "remote_managed",
    "managed",
    "live_migratable",
    "one_time_use",
    "resource_class",
    "traits",
)


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


def parse_specs(values: Sequence[str]) -> tuple[DeviceSpec, ...]:
    """The option's values, each a JSON object or a list of them.

    :raises PciConfigInvalidSpec: naming the index, the key and the rule.
    """
    return tuple(_spec(document) for document in documents(OPTION, values, PciConfigInvalidSpec))


def spec_of(specs: Iterable[DeviceSpec], device: Device) -> DeviceSpec | None:
    """The first that matches; the others are not asked."""
    return next((spec for spec in specs if spec.matches(device)), None)


def violations(
    specs: Sequence[DeviceSpec], devices: Iterable[Device]
) -> Iterator[PciConfigInvalidSpec]:
    """What is wrong with these specifications on this host: errors at start, and devices that are
    not offered when they appear later."""
    for device in devices:
        spec = spec_of(specs, device)
        wrong = spec.violation(device) if spec is not None else None
        if wrong is not None:
            yield wrong


def _spec(document: Document) -> DeviceSpec:
    document.only((*MATCHING, *TAGS))
    if "address" in document.content and "devname" in document.content:
        raise document.wrong("devname", "is not combined with address")
    every: AddressPattern = EVERY
    return DeviceSpec(
        index=document.index,
        vendor_id=document.get("vendor_id", _id, None),
        product_id=document.get("product_id", _id, None),
        address=document.get("address", _address, every),
        devname=document.get("devname", words.string, None),
        tags=_tags(document),
    )


def _tags(document: Document) -> Tags:
    unsaid: str | UnsetType | None = UNSET
    return Tags(
        physical_network=document.get("physical_network", _network, unsaid),
        trusted=document.get("trusted", words.boolean, False),
        remote_managed=document.get("remote_managed", words.boolean, False),
        managed=document.get("managed", words.boolean, True),
        live_migratable=document.get("live_migratable", words.boolean, False),
        one_time_use=document.get("one_time_use", words.boolean, False),
        resource_class=document.get("resource_class", words.resource_class, None),
        traits=document.get("traits", words.traits, frozenset()),
    )


def _id(value: object) -> str | None:
    return None if value == ANY else words.hex_id(value)


def _network(value: object) -> str | UnsetType | None:
    return None if value is None else words.string(value)


def _address(value: Any) -> AddressPattern:
    if isinstance(value, str):
        return parse_glob(value)
    if isinstance(value, dict):
        return parse_regex(value)
    raise BadAddress("must be a string, or an object with a regular expression for each field")
