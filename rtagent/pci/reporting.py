"""Which provider of Placement counts a PCI device, and which devices cannot be told to it.

A physical function and its virtual ones have one provider, with one resource class and one set of
traits. So the operator offers either the one or the others, and says the same of all the others
(Nova's rules).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import os_traits
from msgspec import UNSET

from rtagent.errors import PciConfigInvalidSpec
from rtagent.model.base import Value
from rtagent.model.device import FUNCTIONS, Device, PciDevice, Tags
from rtagent.model.device_spec import OPTION, DeviceSpec, spec_of
from rtagent.model.pci_policy import PciPolicy
from rtagent.pci.spec import violations


class Counted(Value, frozen=True):
    """What one provider counts.

    :ivar address: the device's own, or the physical function's.
    :ivar devices: at least one, all of one class and with the same traits.
    """

    address: str
    devices: tuple[PciDevice, ...]


class Misfit(Value, frozen=True):
    """A device that its provider cannot count beside another. :ivar key: of its specification."""

    address: str
    key: str
    value: str
    rule: str


def counted(devices: Iterable[PciDevice]) -> tuple[tuple[Counted, ...], tuple[Misfit, ...]]:
    """What each provider counts, by address, and what is left over.

    What a specification offers goes before what is merely held, and then the lower address. Devices
    on a physical network belong to Neutron's ports, which nobody allocates: they are not counted.
    """
    groups: dict[str, list[PciDevice]] = {}
    misfits: list[Misfit] = []
    for each in sorted(devices, key=lambda each: (not each.listed, each.address)):
        if each.tags.physical_network is not UNSET:
            continue
        group = groups.setdefault(_place(each.device), [])
        wrong = _misfit(each, group[0]) if group else None
        if wrong is None:
            group.append(each)
        else:
            misfits.append(wrong)
    found = (Counted(address, tuple(groups[address])) for address in sorted(groups))
    return tuple(found), tuple(misfits)


def traits(tags: Tags) -> frozenset[str]:
    """What a provider of devices with these tags has."""
    said = {
        os_traits.HW_PCI_LIVE_MIGRATABLE: tags.live_migratable,
        os_traits.HW_PCI_ONE_TIME_USE: tags.one_time_use,
        os_traits.COMPUTE_MANAGED_PCI_DEVICE: True,
        os_traits.OWNER_NOVA: True,
    }
    return tags.traits.union(name for name, holds in said.items() if holds)


def addressed(specs: Iterable[DeviceSpec]) -> None:
    """Whether each says by address what it speaks of.

    :raises PciConfigInvalidSpec: one names an interface, whose address may be another after a boot.
    """
    for spec in specs:
        if spec.devname is not None:
            rule = "is not combined with report_in_placement: name the address"
            raise _wrong(spec.index, "devname", spec.devname, rule)


def forbidden(policy: PciPolicy, devices: Iterable[Device]) -> Iterator[PciConfigInvalidSpec]:
    """What the operator says of devices of a host and may not: errors at start, and devices that
    are not offered, or not told to Placement, when they appear later."""
    there = tuple(devices)
    yield from violations(policy.specs, there)
    yield from unreported(policy, there)


def unreported(policy: PciPolicy, devices: Iterable[Device]) -> Iterator[PciConfigInvalidSpec]:
    """What keeps devices of a host from being told to Placement, if it is to be told of any."""
    if not policy.report_in_placement:
        return
    found = list(_offered(policy.specs, devices))
    indices = {each.address: spec.index for each, spec in found}
    _, misfits = counted(each for each, _ in found)
    for misfit in misfits:
        yield _wrong(indices[misfit.address], misfit.key, misfit.value, misfit.rule)


def _offered(
    specs: Sequence[DeviceSpec], devices: Iterable[Device]
) -> Iterator[tuple[PciDevice, DeviceSpec]]:
    for device in devices:
        spec = spec_of(specs, device)
        if spec is not None and spec.violation(device) is None:
            yield PciDevice(device=device, tags=spec.tags), spec


def _place(device: Device) -> str:
    """The address under which it is counted."""
    return (device.dev_type in FUNCTIONS and device.parent_addr) or device.address


def _misfit(each: PciDevice, first: PciDevice) -> Misfit | None:
    if (each.device.dev_type in FUNCTIONS) != (first.device.dev_type in FUNCTIONS):
        rule = f"is of one card with {first.address}: report_in_placement takes only one of the two"
        return Misfit(each.address, "address", each.address, rule)
    rule = f"of {each.address} is not that of {first.address}: report_in_placement takes one a card"
    if each.resource_class != first.resource_class:
        return Misfit(each.address, "resource_class", each.resource_class, rule)
    if traits(each.tags) != traits(first.tags):
        return Misfit(each.address, "traits", ",".join(sorted(traits(each.tags))), rule)
    return None


def _wrong(index: str, key: str, value: str, rule: str) -> PciConfigInvalidSpec:
    return PciConfigInvalidSpec(
        group="pci", option=OPTION, index=index, key=key, value=value, rule=rule
    )
