"""The devices of a running domain, as the units that a claim records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rtagent.allocation.encryption_contexts import FittedEncryption, fit_encryption
from rtagent.errors import DomainNotAdoptable, InvalidPciRequest
from rtagent.lifecycle.stated_units import completed_device, completed_resource
from rtagent.model.assignment import AssignedResource
from rtagent.model.decision import Refused
from rtagent.model.device import AssignedDevice, PciDevice, Source
from rtagent.model.guest import GuestLayout
from rtagent.model.node_state import NodeState
from rtagent.model.request import Flavor, PciRequest
from rtagent.pci.device_states import absence_reason
from rtagent.pci.requests import FLAVOR_ALIAS, NEUTRON_PORT, device_requests
from rtagent.reconcile.adopted_mdevs import mediated


def devices_of(state: NodeState, layout: GuestLayout, flavor: Flavor) -> tuple[AssignedDevice, ...]:
    """Return the PCI devices of a domain, in order of their addresses.

    A device is for the alias of the flavor that it matches; a network interface is for a port.

    :raises DomainNotAdoptable: the agent does not manage one of them.
    """
    addresses = sorted(layout.usage.occupancy.devices)
    recorded = {address: _recorded(state, address) for address in addresses}
    others = [device for address, device in recorded.items() if address not in layout.ports]
    aliases = _aliases(state, flavor, others)
    return tuple(
        _assigned(
            state,
            device,
            aliases.get(address),
            NEUTRON_PORT if address in layout.ports else FLAVOR_ALIAS,
        )
        for address, device in recorded.items()
    )


def requests_of(devices: Sequence[AssignedDevice]) -> tuple[PciRequest, ...]:
    """Return a request for each device, as a conductor would have sent it."""
    return tuple(
        PciRequest(
            count=1,
            request_id=device.request_id,
            alias_name=device.alias_name,
            spec=({"vendor_id": device.vendor_id, "product_id": device.product_id},),
            source=device.source,
        )
        for device in devices
    )


def resources_of(state: NodeState, layout: GuestLayout) -> tuple[AssignedResource, ...]:
    """Return the mediated devices and the persistent memory of a domain.

    :raises DomainNotAdoptable: the agent does not manage one of them.
    """
    return (*mediated(state, layout), *_namespaces(state, layout))


def encryption_of(state: NodeState, layout: GuestLayout) -> FittedEncryption:
    """Return the encryption of a domain's memory, and its context.

    :raises DomainNotAdoptable: the host does not offer it.
    """
    usage = layout.usage
    fitted = fit_encryption(state, usage.domain_uuid, usage.occupancy.mem_encryption)
    if isinstance(fitted, Refused):
        raise DomainNotAdoptable(f"its memory is encrypted: {fitted}")
    return fitted


def _recorded(state: NodeState, address: str) -> PciDevice:
    device = state.devices.get(address)
    why = "no [pci] device_spec matches it" if device is None else absence_reason(device)
    if device is None or why is not None:
        raise DomainNotAdoptable(f"it has the PCI device {address}, but {why}")
    return device


def _aliases(
    state: NodeState, flavor: Flavor, devices: Sequence[PciDevice]
) -> Mapping[str, str | None]:
    """Return the alias of the flavor that each device is for, by address."""
    try:
        requests = device_requests(flavor, (), state.policy.pci.aliases, None)
    except InvalidPciRequest:  # of a flavor for other hosts
        return {}
    aliases: dict[str, str | None] = {}
    for request in requests:
        free = (device for device in devices if device.address not in aliases)
        fitting = [d for d in free if any(each.matches(d) for each in request.alternatives)]
        aliases.update((each.address, request.alias_name) for each in fitting[: request.count])
    return aliases


def _assigned(
    state: NodeState, recorded: PciDevice, alias: str | None, source: Source
) -> AssignedDevice:
    device = recorded.device
    stated = AssignedDevice(
        address=device.address,
        vendor_id=device.vendor_id,
        product_id=device.product_id,
        dev_type=device.dev_type,
        request_id=f"adopted-{device.address}",
        alias_name=alias,
        source=source,
    )
    return completed_device(state, stated)


def _namespaces(state: NodeState, layout: GuestLayout) -> Iterator[AssignedResource]:
    classes = {
        name: inventory.resource_class
        for inventory in state.resource_inventories
        if not inventory.provider
        for name in inventory.identifiers
    }
    for name in sorted(layout.usage.occupancy.namespaces):
        if name not in classes:
            raise DomainNotAdoptable(
                f"it has the namespace {name}, which [libvirt] pmem_namespaces does not have"
            )
        stated = AssignedResource(resource_class=classes[name], identifier=name)
        yield completed_resource(state, stated)
