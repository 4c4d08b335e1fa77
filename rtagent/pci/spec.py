"""``[pci] device_spec``: which devices the operator offers, and what he says of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from msgspec import UNSET, UnsetType

from rtagent.errors import PciConfigInvalidSpec
from rtagent.model.address import (
    ANY,
    EVERY,
    AddressPattern,
    BadAddress,
    parse_glob,
    parse_regex,
)
from rtagent.model.device import Device, Tags
from rtagent.model.device_spec import OPTION, DeviceSpec, spec_of
from rtagent.pci import words
from rtagent.pci.document import Document, documents

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


def parse_specs(values: Sequence[str]) -> tuple[DeviceSpec, ...]:
    """The option's values, each a JSON object or a list of them.

    :raises PciConfigInvalidSpec: naming the index, the key and the rule.
    """
    return tuple(_spec(document) for document in documents(OPTION, values, PciConfigInvalidSpec))


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
