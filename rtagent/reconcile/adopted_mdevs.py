"""The mediated devices of an adopted domain, also those that other programs created."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from msgspec.structs import replace

from rtagent.errors import DomainNotAdoptable
from rtagent.model.assignment import AssignedResource, ResourceInventory
from rtagent.model.device import Mdev
from rtagent.model.guest import GuestLayout
from rtagent.model.node_state import NodeState
from rtagent.model.policy import EnabledMdevType
from rtagent.pci.assigned_resources import resource_users
from rtagent.pci.mdev import adopted_identifier, mdev_uuid
from rtagent.pci.resource_providers import provider_of_resource


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
