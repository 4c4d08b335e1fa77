"""Assigned resources (vPMEM namespaces, mdevs): users, inventories, and the fit for a claim.

A claim gets resources with identifiers, never only a number of resources.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from msgspec.structs import replace

from rtagent.model.assigned_resources import AssignedResource, PmemNamespace, ResourceInventory
from rtagent.model.base import Value
from rtagent.model.claim import RESOURCE
from rtagent.model.decision import Reason, ReasonCode, Refused, refuse
from rtagent.model.node_state import NodeState
from rtagent.pci.allocations import whole_device_allocations
from rtagent.pci.mdev import mdev_uuid

#: The number of resources of a class, or their identifiers.
ResourceRequest = int | tuple[str, ...]


class FittedResources(Value, frozen=True):
    """All requested resources."""

    resources: tuple[AssignedResource, ...]


def resource_users(state: NodeState) -> Mapping[str, str]:
    """Return the owner of each resource in use, by identifier. Claims take precedence."""
    claimed = {name: owner for (kind, name), owner in state.units.items() if kind == RESOURCE}
    return {**_used_by_domains(state), **claimed}


def allocatable_inventories(state: NodeState) -> tuple[ResourceInventory, ...]:
    """Return the inventories from which claims may get resources, including resources in use.

    - The mdevs of a device that is itself assigned are omitted.
    - The free mdevs of a quarantined device are omitted.
    - If mdevs are in use that a device no longer supports, the same number of its free mdevs is
      omitted.
    """
    used_whole = {allocation.address for allocation in whole_device_allocations(state)}
    users = resource_users(state)
    return tuple(
        _only_used(each, users)
        if _quarantined(state, each.provider)
        else _within_capacity(each, users)
        for each in state.resource_inventories
        if each.provider not in used_whole
    )


def fit_resources(
    inventories: Sequence[ResourceInventory],
    users: Mapping[str, str],
    owner_id: str,
    requests: Mapping[str, ResourceRequest],
    *,
    where: str,
    provider_of: Callable[[str], str],
    reusable: frozenset[str] = frozenset(),
    shares: Mapping[str, Mapping[str, int]] | None = None,
) -> FittedResources | Refused:
    """Return all requested resources, or every reason why they are not available.

    If a number of resources of a class is requested and the claim follows no allocation, all of
    them come from one provider, as in Placement. Of the providers with enough free resources, the
    one with the fewest is chosen, so that the others can still satisfy larger requests.

    :param users: the owner of each identifier in use. :param requests: by resource class.
    :param where: the node's name.
    :param provider_of: returns the uuid of the provider for `ResourceInventory.provider`.
    :param reusable: identifiers that the owner uses and may reuse (a move on one host); they are
        assigned first.
    :param shares: by class: the numbers that Placement allocated, by `ResourceInventory.provider`.
        They are what is requested. None: the claim follows no allocation.
    """
    fitted: list[AssignedResource] = []
    reasons: list[Reason] = []
    namespaces = {each.name: each for inventory in inventories for each in inventory.namespaces}
    for resource_class, request in sorted(requests.items()):
        free = {
            each.provider: _free(each, users, owner_id, reusable)
            for each in inventories
            if each.resource_class == resource_class
        }
        found = _found(free, request, None if shares is None else shares.get(resource_class, {}))
        number = len(request) if isinstance(request, tuple) else request
        if len(found) < number:
            reasons.append(_reason(resource_class, where, number, len(found), bool(free)))
        fitted += (
            _assigned(resource_class, name, parent, provider_of(parent), namespaces.get(name))
            for parent, name in found
        )
    return refuse(reasons) if reasons else FittedResources(tuple(fitted))


def missing(
    inventories: Sequence[ResourceInventory], assigned: Sequence[AssignedResource]
) -> Iterator[AssignedResource]:
    """Yield the assigned resources that are in no inventory. They keep their owner, and are
    reported.
    """
    present = {(each.resource_class, name) for each in inventories for name in each.identifiers}
    for resource in assigned:
        if (resource.resource_class, resource.identifier) not in present:
            yield resource


def _used_by_domains(state: NodeState) -> dict[str, str]:
    """Return the running domain that uses each resource without, or in addition to, a claim."""
    used = {
        uuid: usage.domain_uuid
        for usage in state.domain_usages.values()
        if usage.active
        for uuid in usage.occupancy.mdevs
    }
    namespaces = {
        name: usage.domain_uuid
        for usage in state.domain_usages.values()
        if usage.active
        for name in usage.occupancy.namespaces
    }
    if not used:
        return namespaces
    names = (
        name for each in state.resource_inventories if each.provider for name in each.identifiers
    )
    uuids = {name: mdev_uuid(state.node.uuid, name) for name in names}
    return namespaces | {name: used[uuid] for name, uuid in uuids.items() if uuid in used}


def _quarantined(state: NodeState, provider: str) -> bool:
    recorded = state.devices.get(provider)
    return recorded is not None and recorded.quarantine is not None


def _only_used(inventory: ResourceInventory, users: Collection[str]) -> ResourceInventory:
    return replace(
        inventory, identifiers=tuple(name for name in inventory.identifiers if name in users)
    )


def _within_capacity(inventory: ResourceInventory, users: Collection[str]) -> ResourceInventory:
    """Omit as many free resources as the provider has resources in use beyond its inventory."""
    prefix = f"{inventory.provider}/"
    used = [name for name in users if inventory.provider and name.startswith(prefix)]
    excess = len(set(used).difference(inventory.identifiers))
    free = [name for name in inventory.identifiers if name not in users]
    excluded = free[-excess:] if excess else ()
    return replace(
        inventory, identifiers=tuple(n for n in inventory.identifiers if n not in excluded)
    )


def _free(
    inventory: ResourceInventory,
    users: Mapping[str, str],
    owner_id: str,
    reusable: frozenset[str],
) -> list[str]:
    """Return the identifiers that are available to the owner. Those that it already uses come
    first.
    """
    own = [
        name
        for name in inventory.identifiers
        if name in reusable and users.get(name, owner_id) == owner_id
    ]
    return own + [name for name in inventory.identifiers if name not in users]


def _assigned(
    resource_class: str,
    identifier: str,
    parent: str,
    provider: str,
    namespace: PmemNamespace | None,
) -> AssignedResource:
    return AssignedResource(
        resource_class=resource_class,
        identifier=identifier,
        provider=provider,
        parent_addr=parent or None,
        namespace=namespace,
    )


def _found(
    free: Mapping[str, list[str]], request: ResourceRequest, share: Mapping[str, int] | None
) -> list[tuple[str, str]]:
    """Return what is assigned of one class, with the parent's address.

    :param share: as in `fit_resources`, of this class.
    """
    if share is not None and not isinstance(request, tuple):
        return [(p, name) for p, number in share.items() for name in free.get(p, ())[:number]]
    names = request if isinstance(request, tuple) else _choose(free, request)
    return [(p, name) for name in dict.fromkeys(names) for p in free if name in free[p]]


def _choose(free: Mapping[str, list[str]], number: int) -> tuple[str, ...]:
    """Return resources of the provider with the fewest among those with enough. If none has enough,
    return those of the provider with the most.
    """
    by_size = sorted(free.values(), key=len)
    enough = [names for names in by_size if len(names) >= number]
    return tuple((enough or by_size[-1:] or [[]])[0][:number])


def _reason(
    resource_class: str, where: str, requested: int, available: int, provided: bool
) -> Reason:
    return Reason(
        code=ReasonCode.INSUFFICIENT if provided else ReasonCode.NOT_OFFERED,
        resource=resource_class,
        where=where,
        requested=requested,
        available=available,
        unit="units",
    )
