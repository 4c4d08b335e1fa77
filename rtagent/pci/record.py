"""The record of devices, brought up to what was seen and to what the operator offers now.

What is held, or quarantined, stays in the record whatever becomes of the device or of the
specification (P10; LP1633120: a typing error in the option deleted devices in use).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec.structs import replace

from rtagent.model.base import Value
from rtagent.model.device import Device, PciDevice
from rtagent.model.device_spec import DeviceSpec, spec_of
from rtagent.model.observation import Problem

#: Why a device for one use is kept back after it.
USED = "it was used once: whatever the guest left on it is to be wiped"


class Refresh(Value, frozen=True, kw_only=True):
    """What changes in the record.

    :ivar puts: devices that are new or differ. :ivar removals: addresses.
    :ivar problems: devices that a specification matches and may not.
    """

    puts: tuple[PciDevice, ...] = ()
    removals: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()


def refresh(
    known: Mapping[str, PciDevice],
    seen: Iterable[Device],
    specs: Sequence[DeviceSpec],
    held: Collection[str],
) -> Refresh:
    """The change from the record to what a whole listing of the host's devices has shown.

    :param held: addresses of devices in somebody's hands.
    """
    problems: list[Problem] = []
    there = {device.address: device for device in seen}
    after: dict[str, PciDevice] = {}
    for device in there.values():
        offered = _offered(device, specs, problems)
        if offered is None and device.address in held:
            # Nobody offers it, and somebody has it, or a relative of it, that others might ask for.
            offered = PciDevice(device=device, listed=False)
        if offered is not None:
            after[device.address] = offered
    for address, old in known.items():
        kept = _kept(old, there.get(address), after.get(address), address in held)
        if kept is not None:
            after[address] = kept
    return Refresh(
        puts=tuple(new for address, new in sorted(after.items()) if known.get(address) != new),
        removals=tuple(sorted(known.keys() - after.keys())),
        problems=tuple(problems),
    )


def released(devices: Mapping[str, PciDevice], addresses: Iterable[str]) -> tuple[PciDevice, ...]:
    """What changes in the record of devices that nobody holds any more: those for one use are kept
    back until the operator clears them. What has left the host or the specification meanwhile goes
    with the next `refresh`."""
    return tuple(
        replace(devices[address], quarantine=USED)
        for address in sorted(addresses)
        if address in devices
        and devices[address].tags.one_time_use
        and devices[address].quarantine is None
    )


def _offered(
    device: Device, specs: Sequence[DeviceSpec], problems: list[Problem]
) -> PciDevice | None:
    spec = spec_of(specs, device)
    if spec is None:
        return None
    wrong = spec.violation(device)
    if wrong is not None:
        problems.append(Problem(item=f"device {device.address}", message=wrong.message))
        return None
    return PciDevice(device=device, tags=spec.tags)


def _kept(
    old: PciDevice, there: Device | None, new: PciDevice | None, held: bool
) -> PciDevice | None:
    """An old record's next state; None: nothing but what is offered now."""
    if not held and old.quarantine is None:
        return None
    if there is None or not old.device.same_make(there):
        # Another card in the slot is not what the holder has; it waits until he has let go.
        return replace(old, present=False)
    if new is None or not new.listed:
        return replace(old, device=there, present=True, listed=False)
    return replace(new, quarantine=old.quarantine)
