"""Mediated devices (virtual GPUs): which types are enabled where, and what that makes.

A unit of a type on a device is an index, not a device that exists: who holds it creates it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from uuid import UUID, uuid5

from rtagent.errors import ConfigError
from rtagent.model.address import BadAddress, parse_address
from rtagent.model.base import Value
from rtagent.model.device import Device, Mdev
from rtagent.model.observation import Problem
from rtagent.model.specific import EnabledType, SpecificInventory

VGPU = "VGPU"
_CLASS = re.compile(r"VGPU|CUSTOM_[A-Z0-9_]+")
_CLASS_LENGTH = 255


class MdevSettings(Value, frozen=True, kw_only=True):
    """The options of one ``[mdev_<type>]``.

    :ivar device_addresses: on which the type is enabled; none: wherever it is the only type.
    :ivar max_instances: of one device, or None for as many as it makes.
    """

    device_addresses: Sequence[str] = ()
    mdev_class: str = VGPU
    max_instances: int | None = None


def enabled_types(
    types: Sequence[str], settings: Mapping[str, MdevSettings]
) -> tuple[tuple[EnabledType, ...], tuple[Problem, ...]]:
    """``[devices] enabled_mdev_types`` with the sections of the types, and what is odd about them.

    Several types need each the addresses of its devices; if one has none, only the first of all is
    enabled, on every device that has it (Nova's rule).

    :raises ConfigError: a value breaks its rule, or two types are enabled on one device.
    """
    made = tuple(
        _enabled(name, settings.get(name, MdevSettings())) for name in dict.fromkeys(types)
    )
    _apart(made)
    homeless = [each.type for each in made if each.addresses is None]
    if len(made) < 2 or not homeless:
        return made, ()
    first = made[0]
    message = f"it has no device_addresses: {first.type} alone is enabled, on every device"
    problem = Problem(item=f"[mdev_{homeless[0]}]", message=message)
    alone = EnabledType(
        type=first.type,
        addresses=None,
        resource_class=first.resource_class,
        max_instances=first.max_instances,
    )
    return (alone,), (problem,)


def mdev_inventories(
    types: Iterable[EnabledType],
    devices: Iterable[Device],
    existing: Collection[str],
    held: Collection[str] = (),
) -> tuple[SpecificInventory, ...]:
    """What each device makes of the type that is enabled on it: as many as it can, what is held
    first, then what exists.

    :param existing: identifiers of ours of which the mediated device is there now. Those of others
        are none of our inventory, and the device makes so many fewer.
    :param held: identifiers.
    """
    enabled = tuple(types)
    made = (
        _inventory(each, device, existing, held)
        for device in sorted(devices, key=lambda device: device.address)
        for each in enabled
        if each.addresses is None or device.address in each.addresses
    )
    return tuple(inventory for inventory in made if inventory is not None)


def ours(
    node_uuid: str, devices: Iterable[Device], mdevs: Iterable[Mdev], known: Iterable[str]
) -> frozenset[str]:
    """The identifiers of this node's units whose mediated device exists. Their uuids tell.

    :param known: identifiers that may be among them, beside those that the devices make.
    """
    uuids: dict[tuple[str, str], set[str | None]] = {}
    for mdev in mdevs:
        uuids.setdefault((mdev.parent_addr, mdev.type), set()).add(mdev.uuid)
    if not uuids:
        return frozenset()
    free = {(d.address, t.id): t.available_instances for d in devices for t in d.mdev_types}
    made = (
        identifier(address, type_, number)
        for (address, type_), its in uuids.items()
        for number in range(len(its) + free.get((address, type_), 0))
    )
    every = set[str | None]().union(*uuids.values())
    return frozenset(name for name in {*known, *made} if mdev_uuid(node_uuid, name) in every)


def identifier(address: str, type_: str, index: int) -> str:
    """Of one unit."""
    return f"{_of(address, type_)}{index}"


def _of(address: str, type_: str) -> str:
    """What the identifiers of a device's units of one type begin with."""
    return f"{address}/{type_}/"


def mdev_uuid(node_uuid: str, identifier: str) -> str:
    """The uuid of a unit's mediated device: always the same, and no other's."""
    return str(uuid5(UUID(node_uuid), identifier))


def _inventory(
    enabled: EnabledType, device: Device, existing: Collection[str], held: Collection[str]
) -> SpecificInventory | None:
    for offered in device.mdev_types:
        if offered.id == enabled.type:
            of_these = _of(device.address, offered.id)
            there = _numbers(existing, of_these)
            total = offered.available_instances + len(there)
            if enabled.max_instances is not None:
                total = min(total, enabled.max_instances)
            # Others in the place of what is held would be more than the device makes.
            numbers = dict.fromkeys((*_numbers(held, of_these), *there, *range(total)))
            return SpecificInventory(
                provider=device.address,
                resource_class=enabled.resource_class,
                identifiers=tuple(f"{of_these}{n}" for n in sorted(list(numbers)[:total])),
            )
    return None


def _numbers(identifiers: Collection[str], of_these: str) -> list[int]:
    return sorted(int(each[len(of_these) :]) for each in identifiers if each.startswith(of_these))


def _enabled(name: str, settings: MdevSettings) -> EnabledType:
    group = f"mdev_{name}"
    if settings.max_instances is not None and settings.max_instances < 1:
        raise _error(group, "max_instances", settings.max_instances, "must be at least 1")
    return EnabledType(
        type=name,
        addresses=frozenset(_addresses(group, settings.device_addresses)) or None,
        resource_class=_resource_class(group, settings.mdev_class),
        max_instances=settings.max_instances,
    )


def _resource_class(group: str, name: str) -> str:
    if not _CLASS.fullmatch(name) or len(name) > _CLASS_LENGTH:
        rule = f"must be {VGPU}, or CUSTOM_ and capitals, digits and underscores"
        raise _error(group, "mdev_class", name, rule)
    return name


def _addresses(group: str, addresses: Iterable[str]) -> Iterator[str]:
    for address in addresses:
        try:
            yield str(parse_address(address))
        except BadAddress as broken:
            raise _error(group, "device_addresses", address, str(broken)) from broken


def _apart(types: Iterable[EnabledType]) -> None:
    owners: dict[str, str] = {}
    for each in types:
        for address in sorted(each.addresses or ()):
            other = owners.setdefault(address, each.type)
            if other != each.type:
                rule = f"{other} is enabled on that device already"
                raise _error(f"mdev_{each.type}", "device_addresses", address, rule)


def _error(group: str, option: str, value: object, rule: str) -> ConfigError:
    return ConfigError(group=group, option=option, value=value, rule=rule)
