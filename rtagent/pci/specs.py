"""``[pci] device_spec`` and ``[pci] alias``: parsing, checks against the devices of a host, and
tags as JSON.

The recorded devices of a host, updated from a listing and from ``[pci] device_spec``.

A device that is in use or quarantined stays in the record even if it has left the host or no
specification matches it any more (P10; LP1633120: a typing error in the option deleted devices in
use).
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from rtagent.errors import PciConfigInvalidSpec, PciInvalidAlias
from rtagent.model.address import ANY, AddressPattern, BadAddress, parse_glob, parse_regex
from rtagent.model.base import Value
from rtagent.model.device import (
    DEV_TYPES,
    LEGACY,
    OPTION,
    PCI_NUMA_POLICIES,
    Device,
    DeviceCriteria,
    DeviceSpec,
    PciDevice,
    Tags,
    find_spec,
)
from rtagent.model.policy import Alias, Aliases
from rtagent.pci import parsing
from rtagent.pci.parsing import OptionDocument, Parsers, option_documents

ALIAS = "alias"
ALIAS_KEYS = (
    "name",
    "vendor_id",
    "product_id",
    "device_type",
    "numa_policy",
    "resource_class",
    "traits",
    "live_migratable",
    # Nova's files may have this key, with this one value; it has no effect.
    "capability_type",
)
CAPABILITY_TYPES = ("pci",)


def parse_specs(values: Sequence[str]) -> tuple[DeviceSpec, ...]:
    """Parse the values of the option; each is a JSON object or a list of objects.

    :raises PciConfigInvalidSpec: names the index, the key and the rule.
    """
    documents = option_documents(OPTION, values, PciConfigInvalidSpec)
    return tuple(_parse_spec(document) for document in documents)


def spec_errors(
    specs: Sequence[DeviceSpec], devices: Iterable[Device]
) -> Iterator[PciConfigInvalidSpec]:
    """Yield the specifications that name a device of this host which cannot have their tags.

    Such a specification is wrong, whatever other devices there are. Whether a specification that
    names no device is wrong does not depend on the devices of the host, see `device_errors`.
    """
    present = tuple(devices)
    for spec in specs:
        error = next(filter(None, map(spec.error_if_named, present)), None)
        if error is not None:
            yield error


def device_errors(
    specs: Sequence[DeviceSpec], devices: Iterable[Device]
) -> Iterator[PciConfigInvalidSpec]:
    """Yield why devices that match a specification cannot have its tags.

    These devices are not available to guests. The specification is valid for other devices.
    """
    for device in devices:
        spec = find_spec(specs, device)
        error = spec.error_for(device) if spec is not None else None
        if error is not None:
            yield error


def tags_as_dict(tags: Tags) -> dict[str, Any]:
    """Return the tags that differ from their defaults, in the form of Nova's pools.

    They are JSON primitives by the keys of ``[pci] device_spec``. A `physical_network` of null is
    included.
    """
    words = {
        "trusted": "yes" if tags.trusted else None,
        "remote_managed": "true" if tags.remote_managed else None,
        "managed": None if tags.managed else "no",
        "live_migratable": "yes" if tags.live_migratable else None,
        "one_time_use": "yes" if tags.one_time_use else None,
        "resource_class": tags.resource_class,
        "traits": ",".join(sorted(tags.traits)) or None,
    }
    shown: dict[str, Any] = {key: word for key, word in words.items() if word is not None}
    if tags.physical_network is not UNSET:
        shown["physical_network"] = tags.physical_network
    return shown


def _parse_spec(document: OptionDocument) -> DeviceSpec:
    document.check_keys((*_SELECTORS, *_TAGS))
    if "address" in document.content and "devname" in document.content:
        raise document.invalid("devname", "cannot be combined with address")
    selectors, tags = document.values(_SELECTORS), Tags(**document.values(_TAGS))
    spec = DeviceSpec(index=document.index, **selectors, tags=tags)
    _check_remote_managed(document, spec)
    return spec


def _check_remote_managed(document: OptionDocument, spec: DeviceSpec) -> None:
    """Check that a specification of remotely managed devices means virtual functions only.

    A name of one device may be that of a physical function, or of a virtual one: only the product
    distinguishes them. This must not depend on which of them are present.
    """
    if not spec.tags.remote_managed:
        return
    if spec.tags.one_time_use:
        rule = "is not supported for virtual functions, and remote_managed devices are such"
        raise document.invalid("one_time_use", rule)
    if spec.names_device and spec.product_id is None:
        rule = (
            "is supported only for virtual functions; a specification that names one device, which"
            " may be a physical function, needs their product_id"
        )
        raise document.invalid("remote_managed", rule)


def _parse_id(value: object) -> str | None:
    wildcard = isinstance(value, str) and value.strip() == ANY
    return None if wildcard else parsing.parse_hex_id(value)


def _parse_address(value: Any) -> AddressPattern:
    if isinstance(value, str):
        return parse_glob(value)
    if isinstance(value, dict):
        return parse_regex(value)
    raise BadAddress("must be a string, or an object with a regular expression for each field")


#: The parsers of the keys that select devices. All keys have the names of the values' fields.
_SELECTORS: Parsers = {
    "vendor_id": _parse_id,
    "product_id": _parse_id,
    "address": _parse_address,
    "devname": parsing.parse_string,
}
#: Those of the keys that describe the selected devices.
_TAGS: Parsers = {
    "physical_network": parsing.parse_network,
    "trusted": parsing.parse_boolean,
    "remote_managed": parsing.parse_boolean,
    "managed": parsing.parse_boolean,
    "live_migratable": parsing.parse_boolean,
    "one_time_use": parsing.parse_boolean,
    "resource_class": parsing.parse_resource_class,
    "traits": parsing.parse_traits,
}


def parse_aliases(values: Sequence[str]) -> Aliases:
    """Parse the values of the option. A repeated name adds an alternative to its alias.

    :raises PciInvalidAlias: names the index, the key and the rule.
    """
    aliases: dict[str, Alias] = {}
    for document in option_documents(ALIAS, values, PciInvalidAlias):
        alias = _parse_alias(document)
        known = aliases.get(alias.name)
        aliases[alias.name] = alias if known is None else _combine(known, alias, document)
    return aliases


def _parse_alias(document: OptionDocument) -> Alias:
    document.check_keys(ALIAS_KEYS)
    document.get("capability_type", parsing.one_of(CAPABILITY_TYPES), "")
    if "name" not in document.content:
        raise document.invalid("", "has no name")
    has_ids = "vendor_id" in document.content and "product_id" in document.content
    resource_class = document.get("resource_class", parsing.parse_resource_class, None)
    if not has_ids and resource_class is None:
        raise document.invalid("", "needs vendor_id and product_id, or resource_class")
    criteria = DeviceCriteria(
        vendor_id=document.get("vendor_id", parsing.parse_hex_id, None),
        product_id=document.get("product_id", parsing.parse_hex_id, None),
        dev_type=document.get("device_type", parsing.one_of(DEV_TYPES), None),
        resource_class=resource_class,
        traits=document.get("traits", parsing.parse_traits, frozenset()),
        live_migratable=document.get("live_migratable", parsing.parse_boolean, None),
    )
    return Alias(
        name=document.get("name", parsing.parse_string, ""),
        numa_policy=document.get("numa_policy", parsing.one_of(PCI_NUMA_POLICIES), LEGACY),
        alternatives=(criteria,),
    )


def _combine(known: Alias, other: Alias, document: OptionDocument) -> Alias:
    if known.numa_policy != other.numa_policy:
        rule = f"alias {known.name} already has the policy {known.numa_policy}"
        raise document.invalid("numa_policy", rule)
    dev_type = known.alternatives[0].dev_type
    if other.alternatives[0].dev_type != dev_type:
        rule = f"alias {known.name} already has the type {dev_type}"
        raise document.invalid("device_type", rule)
    return Alias(
        name=known.name,
        numa_policy=known.numa_policy,
        alternatives=known.alternatives + other.alternatives,
    )


#: The reason of a quarantine after one use.
USED_ONCE = "it was used once: erase the guest's data on it before you clear it"


class Refresh(Value, frozen=True, kw_only=True):
    """Changes of the record. :ivar puts: new and changed devices. :ivar removals: addresses."""

    puts: tuple[PciDevice, ...] = ()
    removals: tuple[str, ...] = ()


def refresh(
    known: Mapping[str, PciDevice],
    seen: Iterable[Device],
    specs: Sequence[DeviceSpec],
    used: Collection[str],
) -> Refresh:
    """Return the changes that update the record to a complete listing of the host's devices.

    A device whose tags are not allowed for it (`DeviceSpec.error_for`) is not recorded.

    :param used: addresses of devices that are in use.
    """
    present = {device.address: device for device in seen}
    after: dict[str, PciDevice] = {}
    for device in present.values():
        recorded = _matched(device, specs)
        if recorded is None and device.address in used:
            # No specification matches the device. But while it is in use, related devices that
            # match a specification are unavailable.
            recorded = PciDevice(device=device, listed=False)
        if recorded is not None:
            after[device.address] = recorded
    for address, old in known.items():
        kept = _kept(old, present.get(address), after.get(address), address in used)
        if kept is not None:
            after[address] = kept
    return Refresh(
        puts=tuple(new for address, new in sorted(after.items()) if known.get(address) != new),
        removals=tuple(sorted(known.keys() - after.keys())),
    )


def quarantine_used(
    devices: Mapping[str, PciDevice], addresses: Iterable[str]
) -> tuple[PciDevice, ...]:
    """Return the changes of the record when devices are released.

    Devices with the tag `one_time_use` are quarantined until the operator clears them. A device
    that has left the host or its specification in the meantime is removed by the next `refresh`.

    :param addresses: devices that have no user any more.
    """
    return tuple(
        replace(devices[address], quarantine=USED_ONCE)
        for address in sorted(addresses)
        if address in devices
        and devices[address].tags.one_time_use
        and devices[address].quarantine is None
    )


def _matched(device: Device, specs: Sequence[DeviceSpec]) -> PciDevice | None:
    spec = find_spec(specs, device)
    if spec is None or spec.error_for(device) is not None:
        return None
    return PciDevice(device=device, tags=spec.tags)


def _kept(
    old: PciDevice, present: Device | None, new: PciDevice | None, used: bool
) -> PciDevice | None:
    """Return the next record of a device that is in use or quarantined; None for other devices.

    :param present: the device that is now at the address. :param new: the device as a specification
        matches it now.
    """
    if not used and old.quarantine is None:
        return None
    if present is None or not old.device.same_hardware(present):
        # A different card in the slot is not the device in use. It is recorded after the release.
        return replace(old, present=False)
    if new is None or not new.listed:
        return replace(old, device=present, present=True, listed=False)
    return replace(new, quarantine=old.quarantine)
