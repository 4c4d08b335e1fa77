"""The recorded devices of a host, updated from a listing and from ``[pci] device_spec``.

A device that is in use or quarantined stays in the record even if it has left the host or no
specification matches it any more (P10; LP1633120: a typing error in the option deleted devices in
use).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec.structs import replace

from rtagent.model.base import Value
from rtagent.model.device import Device, DeviceSpec, PciDevice, find_spec

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
