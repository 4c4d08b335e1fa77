"""Mediated devices (virtual GPUs): the enabled types by device, and the inventories.

An identifier names one mediated device of a type on a parent device by an index. The mediated
device need not exist: it is created for the claim that has the identifier. An adopted mediated
device, which others created, has its own uuid in place of the index.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from uuid import UUID, uuid5

from rtagent.errors import ConfigError
from rtagent.model.address import BadAddress, parse_address
from rtagent.model.assignment import ResourceInventory
from rtagent.model.device import Device, Mdev
from rtagent.model.observation import Problem
from rtagent.model.policy import EnabledMdevType

VGPU = "VGPU"
_CLASS = re.compile(r"VGPU|CUSTOM_[A-Z0-9_]+")
_CLASS_LENGTH = 255
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def enabled_type(
    name: str,
    device_addresses: Iterable[str] = (),
    mdev_class: str = VGPU,
    max_instances: int | None = None,
) -> EnabledMdevType:
    """Return an enabled type with the options of its section ``[mdev_<type>]``.

    :param device_addresses: the devices on which the type is enabled; empty: every device that no
        other type has.
    :param max_instances: per card, with all of its functions; None: as many as they support.
    :raises ConfigError: a value breaks its rule.
    """
    group = f"mdev_{name}"
    if max_instances is not None and max_instances < 1:
        raise _error(group, "max_instances", max_instances, "must be at least 1")
    return EnabledMdevType(
        type=name,
        addresses=frozenset(_parse_addresses(group, device_addresses)) or None,
        resource_class=_parse_class(group, mdev_class),
        max_instances=max_instances,
    )


def enabled_types(
    types: Iterable[EnabledMdevType],
) -> tuple[tuple[EnabledMdevType, ...], tuple[Problem, ...]]:
    """Return those of the listed types that are in force, and the problems found.

    The first type without addresses is enabled on all devices that no other type has, and comes
    last. Further types without addresses are not enabled (Nova's rules).

    :param types: ``[devices] enabled_mdev_types``. A repetition counts once.
    :raises ConfigError: two types are enabled on one device.
    """
    enabled = tuple({type_.type: type_ for type_ in types}.values())
    _check_one_type_per_device(enabled)
    defaults = [type_ for type_ in enabled if type_.addresses is None]
    problems = tuple(
        Problem(
            item=f"[mdev_{type_.type}]",
            message="it has no device_addresses: of such types, only"
            f" {defaults[0].type} is enabled, on all devices that no other type has",
        )
        for type_ in defaults[1:]
    )
    selected = (type_ for type_ in enabled if type_.addresses is not None)
    return (*selected, *defaults[:1]), problems


def mdev_inventories(
    types: Iterable[EnabledMdevType],
    devices: Iterable[Device],
    existing: Collection[str],
    used: Collection[str] = (),
) -> tuple[ResourceInventory, ...]:
    """Return the inventory of each device that supports the type enabled on it.

    An inventory has as many identifiers as the device supports, within the limit of the type: those
    in use first, then those whose mediated devices exist.

    :param existing: identifiers of this agent whose mediated devices exist. Mediated devices of
        others are not in the inventory, and reduce its size.
    :param used: identifiers in use.
    """
    enabled = tuple(types)
    parents = {
        device.address: (device, type_)
        for device in sorted(devices, key=lambda device: device.address)
        for type_ in _enabled_on(enabled, device)
    }
    units = (
        unit
        for device, type_ in parents.values()
        for unit in _units(device, type_.type, existing, used)
    )
    numbers = Counter[tuple[str, str]]()
    suffixes = defaultdict[str, list[str]](list)
    for _, address, _, suffix in sorted(units):
        device, type_ = parents[address]
        card = device.parent_addr or address, type_.type
        if type_.max_instances is None or numbers[card] < type_.max_instances:
            numbers[card] += 1
            suffixes[address].append(suffix)
    return tuple(
        ResourceInventory(
            provider=address,
            resource_class=type_.resource_class,
            identifiers=tuple(
                f"{_prefix(address, type_.type)}{suffix}"
                for suffix in sorted(suffixes[address], key=_place)
            ),
        )
        for address, (_, type_) in parents.items()
    )


def existing_identifiers(
    node_uuid: str, devices: Iterable[Device], mdevs: Iterable[Mdev], known: Iterable[str]
) -> frozenset[str]:
    """Return the identifiers of this node whose mediated devices exist, recognised by their uuids.

    :param known: identifiers to check in addition to those that the devices support.
    """
    uuids: dict[tuple[str, str], set[str | None]] = {}
    for mdev in mdevs:
        uuids.setdefault((mdev.parent_addr, mdev.type), set()).add(mdev.uuid)
    if not uuids:
        return frozenset()
    free = {(d.address, t.id): t.available_instances for d in devices for t in d.mdev_types}
    supported = (
        _prefix(address, type_) + str(number)
        for (address, type_), existing in uuids.items()
        for number in range(len(existing) + free.get((address, type_), 0))
    )
    every = set[str | None]().union(*uuids.values())
    return frozenset(name for name in {*known, *supported} if mdev_uuid(node_uuid, name) in every)


def mdev_uuid(node_uuid: str, identifier: str) -> str:
    """Return the uuid of the mediated device for an identifier. It is constant, and unique per
    node.
    """
    _, _, last = identifier.rpartition("/")
    if parent_address(identifier) is not None and _UUID.fullmatch(last):
        return last
    return str(uuid5(UUID(node_uuid), identifier))


def adopted_identifier(mdev: Mdev) -> str:
    """Return the identifier of a mediated device that others have created."""
    return f"{_prefix(mdev.parent_addr, mdev.type)}{mdev.uuid}"


def parent_address(identifier: str) -> str | None:
    """Return the address of the parent device that an identifier names; None: it is no identifier
    of a mediated device.
    """
    address, *rest = identifier.split("/")
    if len(rest) != 2:
        return None
    try:
        return str(parse_address(address))
    except BadAddress:
        return None


def _prefix(address: str, type_: str) -> str:
    """Return the common prefix of the identifiers of one type on one device. An index
    follows it.
    """
    return f"{address}/{type_}/"


def _enabled_on(types: Iterable[EnabledMdevType], device: Device) -> Iterator[EnabledMdevType]:
    """Yield the type that is enabled on a device, if the device supports it."""
    own = (t for t in types if t.addresses is None or device.address in t.addresses)
    enabled = next(own, None)
    if enabled is not None and enabled.type in {supported.id for supported in device.mdev_types}:
        yield enabled


def _units(
    device: Device, type_: str, existing: Collection[str], used: Collection[str]
) -> Iterator[tuple[int, str, tuple[int, int, str], str]]:
    """Yield what a device supports of a type: rank, address, place, and suffix of the identifier.

    Identifiers in use count first. Other identifiers in their place would exceed what the device
    supports.
    """
    prefix = _prefix(device.address, type_)
    made = _suffixes(existing, prefix)
    available = (t.available_instances for t in device.mdev_types if t.id == type_)
    total = next(available) + len(made)
    ranks: dict[str, int] = {}
    for rank, suffixes in enumerate((_suffixes(used, prefix), made, map(str, range(total)))):
        for suffix in suffixes:
            ranks.setdefault(suffix, rank)
    for suffix, rank in islice(ranks.items(), total):
        yield rank, device.address, _place(suffix), suffix


def _suffixes(identifiers: Collection[str], prefix: str) -> list[str]:
    """Return what follows the prefix: indices, in order, then uuids."""
    found = (each.removeprefix(prefix) for each in identifiers if each.startswith(prefix))
    return sorted(found, key=_place)


def _place(suffix: str) -> tuple[int, int, str]:
    """Return the place of an identifier in an inventory, by what follows its prefix."""
    return (0, int(suffix), "") if suffix.isdecimal() else (1, 0, suffix)


def _parse_class(group: str, name: str) -> str:
    if not _CLASS.fullmatch(name) or len(name) > _CLASS_LENGTH:
        rule = f"must be {VGPU}, or CUSTOM_ and capitals, digits and underscores"
        raise _error(group, "mdev_class", name, rule)
    return name


def _parse_addresses(group: str, addresses: Iterable[str]) -> Iterator[str]:
    for address in addresses:
        try:
            yield str(parse_address(address))
        except BadAddress as error:
            raise _error(group, "device_addresses", address, str(error)) from error


def _check_one_type_per_device(types: Iterable[EnabledMdevType]) -> None:
    type_by_address: dict[str, str] = {}
    for enabled in types:
        for address in sorted(enabled.addresses or ()):
            other = type_by_address.setdefault(address, enabled.type)
            if other != enabled.type:
                rule = f"{other} is already enabled on that device"
                raise _error(f"mdev_{enabled.type}", "device_addresses", address, rule)


def _error(group: str, option: str, value: object, rule: str) -> ConfigError:
    return ConfigError(group=group, option=option, value=value, rule=rule)
