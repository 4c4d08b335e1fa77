"""The devices of a running domain, as the units that a claim records."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from rtagent.allocation.quantities import FittedEncryption, fit_encryption
from rtagent.errors import DomainNotAdoptable, InvalidPciRequest
from rtagent.lifecycle.stated_units import completed_device, completed_resource
from rtagent.model.assignment import AssignedResource, ResourceInventory
from rtagent.model.decision import Refused
from rtagent.model.device import AssignedDevice, Mdev, PciDevice, Source
from rtagent.model.guest import GuestLayout
from rtagent.model.node_state import NodeState
from rtagent.model.policy import EnabledMdevType
from rtagent.model.request import Flavor, PciRequest
from rtagent.pci.assigned_resources import resource_users
from rtagent.pci.device_users import absence_reason
from rtagent.pci.mdev import adopted_identifier, mdev_uuid
from rtagent.pci.placement_reporting import provider_of_resource
from rtagent.pci.requests import FLAVOR_ALIAS, NEUTRON_PORT, device_requests


def mediated(state: NodeState, layout: GuestLayout) -> Iterator[AssignedResource]:
    """Yield the mediated devices of a domain, by uuid.

    The identifier of one that the agent did not create ends with its uuid.

    :raises DomainNotAdoptable: one does not exist, or its type is not enabled on its parent device.
    """
    known = {
        mdev_uuid(state.node.uuid, identifier): (inventory, identifier)
        for inventory in state.resource_inventories
        if inventory.provider
        for identifier in inventory.identifiers
    }
    for uuid in sorted(layout.usage.occupancy.mdevs):
        inventory, identifier = known.get(uuid) or _of_others(state, uuid, layout.mdevs.get(uuid))
        yield AssignedResource(
            resource_class=inventory.resource_class,
            identifier=identifier,
            provider=provider_of_resource(state, inventory.provider),
            parent_addr=inventory.provider,
        )


def with_adopted(
    state: NodeState, resources: Iterable[AssignedResource]
) -> tuple[ResourceInventory, ...] | None:
    """Return the inventories with the adopted mediated devices that they lack; None: they have
    them all.

    An inventory stays within ``max_instances``: an adopted one takes the place of a free one.

    :raises DomainNotAdoptable: more of a device would be in use than ``max_instances``.
    """
    inventories = state.resource_inventories
    present = {identifier for each in inventories for identifier in each.identifiers}
    missing = [each for each in resources if each.identifier not in present]
    if not missing:
        return None
    own = {each.identifier for each in resources}
    used = own | resource_users(state).keys()
    return tuple(
        _with(state, each, [unit for unit in missing if unit.parent_addr == each.provider], used)
        for each in inventories
    )


def _with(
    state: NodeState,
    inventory: ResourceInventory,
    adopted: Sequence[AssignedResource],
    used: Collection[str],
) -> ResourceInventory:
    """Return one inventory with adopted mediated devices of its parent device.

    :param used: identifiers in use, with those of the domain that is adopted.
    """
    if not adopted:
        return inventory
    added = tuple(each.identifier for each in adopted)
    enabled = _enabled(state, inventory.provider)
    most = None if enabled is None else enabled.max_instances
    if most is None:
        return replace(inventory, identifiers=(*inventory.identifiers, *added))
    kept = [name for name in inventory.identifiers if name in used]
    free = [name for name in inventory.identifiers if name not in used]
    number = len(kept) + len(added)
    if number > most:
        raise DomainNotAdoptable(
            f"with its own, {number} mediated devices of {inventory.provider} are in use, and"
            f" max_instances of their type is {most}: raise it in the configuration"
        )
    return replace(inventory, identifiers=(*kept, *free[: most - number], *added))


def _of_others(state: NodeState, uuid: str, mdev: Mdev | None) -> tuple[ResourceInventory, str]:
    """Return the inventory and the new identifier of a mediated device that others created."""
    if mdev is None:
        raise DomainNotAdoptable(f"it has the mediated device {uuid}, which does not exist here")
    parent = mdev.parent_addr
    enabled = _enabled(state, parent)
    inventories = (each for each in state.resource_inventories if each.provider == parent)
    inventory = next(inventories, None)
    if inventory is None or enabled is None or enabled.type != mdev.type:
        raise DomainNotAdoptable(
            f"it has the mediated device {uuid} of type {mdev.type} on {parent}, where [devices]"
            " enabled_mdev_types does not enable that type"
        )
    return inventory, adopted_identifier(mdev)


def _enabled(state: NodeState, parent: str) -> EnabledMdevType | None:
    """Return the type that the configuration enables on a device: at most one."""
    types = state.policy.pci.mdev_types
    return next((t for t in types if t.addresses is None or parent in t.addresses), None)


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
