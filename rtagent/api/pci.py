"""JSON views of PCI devices and of assigned resources (virtual GPUs, persistent memory namespaces):
owner, status, and why a device is unavailable."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rtagent.api.reply import Rule, a_uuid, an_address, check, one_of
from rtagent.errors import PciDeviceNotFound
from rtagent.model.assignment import AssignedResource
from rtagent.model.base import Value, made_from
from rtagent.model.claim import LEASED_STATES, RESOURCE, Claim, Unit
from rtagent.model.device import DEV_TYPES, NO_ROOT_PORTS, RootPorts
from rtagent.model.node_state import NodeState
from rtagent.pci.allocations import DeviceAllocations, device_allocations
from rtagent.pci.assigned_resources import missing, resource_users
from rtagent.pci.device_users import ALLOCATED, AVAILABLE, CLAIMED, STATES
from rtagent.pci.mdev import mdev_uuid
from rtagent.pci.placement_reporting import provider_of_resource
from rtagent.pci.specs import tags_as_dict


class DeviceView(Value, frozen=True, kw_only=True):
    """One device that is in the inventory, allocated or in quarantine.

    :ivar node: hypervisor_hostname. :ivar numa_node: None: the device does not report one.
    :ivar root_port: address of the root port that it is behind; None: it is behind none, or the
        port is not known, as in a document that was made from the database.
    :ivar tags: the tags of its device specification that differ from the defaults.
    :ivar status: one of `STATES`. :ivar reason: the reason of the status if it needs one, or "".
    :ivar owner_id: uuid of the instance or of the foreign domain; None: the device is free.
    :ivar name: of the instance or domain. :ivar claim_uuid: None: no claim has the device.
    :ivar others: uuids of its other users: instances with another mdev of it, and domains that use
        a device which a claim of another owner has.
    :ivar quarantine: the reason of its quarantine, or None.
    """

    node: str
    address: str
    vendor_id: str
    product_id: str
    dev_type: str
    numa_node: int | None
    parent_addr: str | None
    iommu_group: int | None
    net_name: str | None
    resource_class: str
    tags: Mapping[str, Any]
    status: str
    owner_id: str | None = None
    name: str | None = None
    claim_uuid: str | None = None
    others: tuple[str, ...] = ()
    quarantine: str | None = None
    reason: str = ""
    root_port: str | None = None


#: By the name of the filter: the field that it compares.
_FILTERS: Mapping[str, Callable[[DeviceView], str | None]] = {
    "address": lambda device: device.address,
    "dev_type": lambda device: device.dev_type,
    "instance": lambda device: device.owner_id,
    "node": lambda device: device.node,
    "status": lambda device: device.status,
}
FILTERS = frozenset(_FILTERS)
_RULES: Mapping[str, Rule] = {
    "address": an_address,
    "dev_type": one_of(DEV_TYPES),
    "instance": a_uuid,
    "status": one_of(STATES),
}


def devices(
    state: NodeState, filters: Mapping[str, str], ports: RootPorts = NO_ROOT_PORTS
) -> Mapping[str, Any]:
    """``{"pci": [Device]}``, by address.

    :param filters: ``instance`` is the uuid of an owner; all that are given must match.
    :param ports: the root ports, which the state does not have.
    :raises InvalidRequest: no device can have such a value.
    """
    check("pci", filters, _RULES)
    allocations = device_allocations(state)
    every = (_device(state, allocations, address, ports) for address in sorted(state.devices))
    matching = (
        each
        for each in every
        if all(_FILTERS[name](each) == wanted for name, wanted in filters.items())
    )
    return {"pci": tuple(matching)}


def device(state: NodeState, address: str, ports: RootPorts = NO_ROOT_PORTS) -> Mapping[str, Any]:
    """``{"pci": Device}``.

    :raises PciDeviceNotFound: the device is neither in the inventory nor allocated.
    """
    if address not in state.devices:
        raise PciDeviceNotFound(address=address)
    return {"pci": _device(state, device_allocations(state), address, ports)}


def counts(state: NodeState) -> dict[str, int]:
    """The number of devices with each status."""
    allocations = device_allocations(state)
    numbers = Counter(allocations.state(address).state for address in state.devices)
    return {status: numbers[status] for status in STATES}


def _device(
    state: NodeState, allocations: DeviceAllocations, address: str, ports: RootPorts
) -> DeviceView:
    found = allocations.state(address)
    owner = owner_of(state, found.owner_id, _claim(state, found.owner_id, address))
    users = {each.owner_id for each in allocations.allocations_of(address)}
    return made_from(
        DeviceView,
        found.device.device,
        found.device,
        owner,
        node=state.node.hypervisor_hostname,
        resource_class=found.device.resource_class,
        tags=tags_as_dict(found.device.tags),
        status=found.state,
        others=tuple(sorted(users - {owner.owner_id})),
        reason=found.reason,
        root_port=ports.get(address),
    )


def _claim(state: NodeState, owner_id: str | None, address: str) -> Claim | None:
    """The owner's claim that has the device, or an mdev of it."""
    for claim in state.claims_of(owner_id) if owner_id is not None else ():
        parents = (unit.parent_addr for unit in claim.resources)
        if address in (*(each.address for each in claim.pci), *parents):
            return claim
    return None


class UnitOwner(Value, frozen=True, kw_only=True):
    """:ivar owner_id: uuid of the instance or of the foreign domain; None if the unit is free.
    :ivar name: the name of the instance or domain. :ivar claim_uuid: None if no claim has the unit.
    """

    owner_id: str | None = None
    name: str | None = None
    claim_uuid: str | None = None


NO_OWNER = UnitOwner()


def claim_of(state: NodeState, unit: Unit) -> Claim | None:
    """The claim that has a unit; of several of the same owner, the first."""
    owner = state.units.get(unit)
    claims = state.claims_of(owner) if owner else ()
    if len(claims) == 1:  # most owners
        return claims[0]
    return next((claim for claim in claims if unit in claim.units), None)


def owner_of(state: NodeState, owner_id: str | None, claim: Claim | None) -> UnitOwner:
    """Describe an owner.

    :param owner_id: None if the unit is free.
    :param claim: by which the owner has the unit; None: its domain was observed to use it.
    """
    if owner_id is None:
        return NO_OWNER
    if claim is not None:
        name = claim.instance.display_name
        return UnitOwner(owner_id=owner_id, name=name, claim_uuid=claim.uuid)
    domain_usage = state.domain_usages.get(owner_id)
    return UnitOwner(owner_id=owner_id, name=domain_usage.name if domain_usage else None)


class Resource(Value, frozen=True, kw_only=True):
    """One resource that is in an inventory or assigned to a claim.

    :ivar node: hypervisor_hostname.
    :ivar provider: the uuid of its resource provider in Placement.
    :ivar parent_addr: the PCI address of its device; None: the host itself has it.
    :ivar mdev_uuid: the uuid of its mediated device, which may not exist yet; None: it has none.
    :ivar status: ``available``, ``claimed`` or ``allocated``, as for a PCI device.
    :ivar owner_id: as for a PCI device, like ``name`` and ``claim_uuid``.
    :ivar present: whether the host has it.
    """

    node: str
    provider: str
    parent_addr: str | None
    resource_class: str
    identifier: str
    mdev_uuid: str | None
    status: str
    owner_id: str | None
    name: str | None
    claim_uuid: str | None
    present: bool


def resources(state: NodeState) -> Mapping[str, Any]:
    """``{"resources": [Resource]}``: those in inventories, then those that claims have and the host
    does not."""
    owners = resource_users(state)
    gone = {
        unit
        for claim in state.claims.values()
        for unit in missing(state.resource_inventories, claim.resources)
    }
    ordered = sorted(gone, key=lambda unit: unit.identifier)
    return {
        "resources": (
            *(_resource(state, unit, owners, present=True) for unit in _present(state)),
            *(_resource(state, unit, owners, present=False) for unit in ordered),
        )
    }


def _present(state: NodeState) -> Iterator[AssignedResource]:
    for each in state.resource_inventories:
        for name in each.identifiers:
            yield AssignedResource(
                resource_class=each.resource_class,
                identifier=name,
                parent_addr=each.provider or None,
            )


def _resource(
    state: NodeState, unit: AssignedResource, owners: Mapping[str, str], *, present: bool
) -> Resource:
    claim = claim_of(state, (RESOURCE, unit.identifier))
    owner = owner_of(state, owners.get(unit.identifier), claim)
    return made_from(
        Resource,
        unit,
        owner,
        node=state.node.hypervisor_hostname,
        provider=provider_of_resource(state, unit.parent_addr),
        mdev_uuid=mdev_uuid(state.node.uuid, unit.identifier) if unit.parent_addr else None,
        status=_status(owner, claim),
        present=present,
    )


def _status(owner: UnitOwner, claim: Claim | None) -> str:
    if owner == NO_OWNER:
        return AVAILABLE
    return CLAIMED if claim is not None and claim.state in LEASED_STATES else ALLOCATED
