"""How PCI devices are reported to Placement, which devices cannot be, and by whom each is provided.

A physical function and its virtual functions have one resource provider, with one resource class
and one set of traits. So the operator may make either the physical function or its virtual
functions available, and all these virtual functions must have equal tags (Nova's rules).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

from msgspec import UNSET

from rtagent.errors import PciConfigInvalidSpec
from rtagent.model.base import Value
from rtagent.model.derived import derived
from rtagent.model.device import (
    OPTION,
    VF_TYPES,
    Device,
    DeviceSpec,
    PciDevice,
    PciDevices,
    find_spec,
)
from rtagent.model.node import Node
from rtagent.model.node_state import NodeState
from rtagent.model.policy import PciPolicy, Policy
from rtagent.model.provider_names import device_suffix, mdev_suffix, provider_uuid


class ProviderDevices(Value, frozen=True):
    """The devices of one resource provider.

    :ivar address: the device's own, or the physical function's.
    :ivar devices: at least one; all have one resource class and equal traits.
    """

    address: str
    devices: tuple[PciDevice, ...]


class Unreportable(Value, frozen=True):
    """A device that cannot share the provider of another device. :ivar key: the key of its
    specification.
    """

    address: str
    key: str
    value: str
    rule: str


def provider_devices(
    devices: Iterable[PciDevice],
) -> tuple[tuple[ProviderDevices, ...], tuple[Unreportable, ...]]:
    """Return the devices of each provider, by address, and those that cannot be reported.

    Devices that a specification matches take precedence over others, then lower addresses do.
    Devices with a physical network are not reported: Neutron's ports use them, and nothing
    allocates them in Placement.
    """
    groups: dict[str, list[PciDevice]] = {}
    unreportable: list[Unreportable] = []
    for each in sorted(devices, key=lambda each: (not each.listed, each.address)):
        if each.tags.physical_network is not UNSET:
            continue
        group = groups.setdefault(_provider_address(each.device), [])
        conflict = _conflict(each, group[0]) if group else None
        if conflict is None:
            group.append(each)
        else:
            unreportable.append(conflict)
    found = (ProviderDevices(address, tuple(groups[address])) for address in sorted(groups))
    return tuple(found), tuple(unreportable)


@derived
def provider_addresses(devices: PciDevices) -> Mapping[str, str]:
    """Return the address that names the provider of each recorded device that is reported.

    A device that no specification matches any more is included, because a claim may have it.
    """
    groups, _ = provider_devices(devices.values())
    return {each.address: group.address for group in groups for each in group.devices}


@derived
def provider_classes(devices: PciDevices) -> Mapping[str, str]:
    """Return the resource class of each provider, by the address that names it."""
    groups, _ = provider_devices(devices.values())
    return {group.address: group.devices[0].resource_class for group in groups}


def check_no_devname(specs: Iterable[DeviceSpec]) -> None:
    """Check that no specification selects devices by the name of a network interface.

    :raises PciConfigInvalidSpec: a specification does so. The address of an interface can change
        with a reboot.
    """
    for spec in specs:
        if spec.devname is not None:
            rule = "cannot be combined with report_in_placement; use address instead"
            raise _error(spec.index, "devname", spec.devname, rule)


def placement_errors(
    policy: PciPolicy, devices: Iterable[Device]
) -> Iterator[PciConfigInvalidSpec]:
    """Yield the reasons why devices cannot be reported, if ``report_in_placement`` is set.

    These devices are available to guests, but are not reported. The specifications are valid on
    hosts with other devices.
    """
    if not policy.report_in_placement:
        return
    matched = list(_matched(policy.specs, devices))
    indices = {recorded.address: spec.index for recorded, spec in matched}
    _, unreportable = provider_devices(recorded for recorded, _ in matched)
    for each in unreportable:
        yield _error(indices[each.address], each.key, each.value, each.rule)


def _matched(
    specs: Sequence[DeviceSpec], devices: Iterable[Device]
) -> Iterator[tuple[PciDevice, DeviceSpec]]:
    for device in devices:
        spec = find_spec(specs, device)
        if spec is not None and spec.error_for(device) is None:
            yield PciDevice(device=device, tags=spec.tags), spec


def _provider_address(device: Device) -> str:
    return (device.dev_type in VF_TYPES and device.parent_addr) or device.address


def _conflict(each: PciDevice, first: PciDevice) -> Unreportable | None:
    """Return why a device cannot share the provider of the first, or None."""
    if (each.device.dev_type in VF_TYPES) != (first.device.dev_type in VF_TYPES):
        rule = (
            f"is on the same card as {first.address}: report_in_placement allows a physical"
            " function or its virtual functions, not both"
        )
        return Unreportable(each.address, "address", each.address, rule)
    rule = (
        f"of {each.address} differs from that of {first.address}:"
        " report_in_placement requires the same for all virtual functions of a card"
    )
    if each.resource_class != first.resource_class:
        return Unreportable(each.address, "resource_class", each.resource_class, rule)
    traits = each.tags.provider_traits
    if traits != first.tags.provider_traits:
        return Unreportable(each.address, "traits", ",".join(sorted(traits)), rule)
    return None


def _error(index: str, key: str, value: str, rule: str) -> PciConfigInvalidSpec:
    return PciConfigInvalidSpec(
        group="pci", option=OPTION, index=index, key=key, value=value, rule=rule
    )


def provider_of_resource(state: NodeState, parent_addr: str | None) -> str:
    """Return the uuid of the provider of the assigned resources of a device.

    :param parent_addr: the device's PCI address; None or "": the host's own resources.
    """
    suffix = mdev_suffix(parent_addr) if parent_addr else ""
    return provider_uuid(state.node, state.policy.placement, suffix)


def provider_of_device(state: NodeState, address: str) -> str | None:
    """Return the uuid of the provider of a PCI device; None: it is not reported to Placement."""
    return device_providers(state)(address)


def device_providers(state: NodeState) -> Callable[[str], str | None]:
    """Return the function that returns the uuid of the provider of a PCI device, by its address.

    The function does not refer to the state, so views of the state may have it.
    """
    return partial(_provider, state.node, state.policy, state.devices)


def _provider(node: Node, policy: Policy, devices: PciDevices, address: str) -> str | None:
    if not policy.pci.report_in_placement:
        return None
    reported = provider_addresses(devices).get(address)
    if reported is None:
        return None
    return provider_uuid(node, policy.placement, device_suffix(reported))
