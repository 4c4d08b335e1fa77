"""Assigned resources (vPMEM namespaces, mdevs): users, inventories, and the fit for a claim.

A claim gets resources with identifiers, never only a number of resources.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from rtagent.model.assigned_resources import AssignedResource, ResourceInventory
from rtagent.model.base import Value
from rtagent.model.claim import RESOURCE
from rtagent.model.decision import Reason, ReasonCode, Refused, refuse
from rtagent.model.domain_usage import DomainUsage
from rtagent.model.node_state import NodeState
from rtagent.pci.allocations import whole_device_allocations
from rtagent.pci.mdev import mdev_uuid

#: The number of resources of a class, or their identifiers.
ResourceRequest = int | tuple[str, ...]


#: Addresses of parent devices, and the identifiers of their resources.
_Found = list[tuple[str, str]]


class FittedResources(Value, frozen=True):
    """All requested resources."""

    resources: tuple[AssignedResource, ...]


def resource_users(state: NodeState) -> Mapping[str, str]:
    """Return the owner of each resource in use, by identifier. Claims take precedence."""
    used = {name: users[0] for name, users in _used_by_domains(state).items()}
    return {**used, **_claimed(state)}


def resource_uses(state: NodeState) -> Iterator[tuple[str, str]]:
    """Yield identifier and owner for each owner of each resource in use."""
    claimed = _claimed(state)
    yield from claimed.items()
    for name, users in _used_by_domains(state).items():
        yield from ((name, user) for user in users if claimed.get(name) != user)


def resources_of(state: NodeState, owner_id: str) -> frozenset[str]:
    """Return the resources that an owner's claims have, and those that only its domain uses."""
    units = (unit for claim in state.claims_of(owner_id) for unit in claim.units)
    claimed = frozenset(name for kind, name in units if kind == RESOURCE)
    domain = state.domain_usages.get(owner_id)
    used_here = used_by_domain(state, domain) if domain is not None else frozenset[str]()
    unclaimed = used_here - claimed
    if not unclaimed:  # most guests: the other domains of the host need not be read
        return claimed
    used = _used_by_domains(state)
    return claimed.union(
        name
        for name in unclaimed
        if used[name] == [owner_id] and (RESOURCE, name) not in state.units
    )


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


def resource_choices(
    inventories: Sequence[ResourceInventory],
    users: Mapping[str, str],
    owner_id: str,
    requests: Mapping[str, ResourceRequest],
    *,
    where: str,
    provider_of: Callable[[str], str],
    reusable: frozenset[str] = frozenset(),
    shares: Mapping[str, Mapping[str, int]] | None = None,
) -> Iterator[FittedResources | Refused]:
    """Yield each choice of resources, the preferred one first; or, once, every reason for none.

    Resources of one class come from one provider, as in Placement: the one with the fewest that
    are enough, so that the others can still satisfy larger requests. Shares may name several.

    :param users: the owner of each identifier in use. :param requests: by resource class.
    :param where: the node's name. :param provider_of: from `ResourceInventory.provider` to a uuid.
    :param reusable: identifiers that the owner may reuse; they are assigned first.
    :param shares: the numbers that Placement allocated, by class and `ResourceInventory.provider`;
        None: the claim follows no allocation.
    """
    choices: list[list[_Found]] = []
    reasons: list[Reason] = []
    for name, request in sorted(requests.items()):
        free = {
            each.provider: _free(each, users, owner_id, reusable)
            for each in inventories
            if each.resource_class == name
        }
        choices.append(_choices(free, request, None if shares is None else shares.get(name, {})))
        number, found = _number(request), len(choices[-1][0])
        if found < number:
            reasons.append(_reason(name, where, number, found, bool(free)))
    if reasons:
        yield refuse(reasons)
        return
    for choice in itertools.product(*choices):
        chosen = zip(sorted(requests), choice, strict=True)
        yield FittedResources(tuple(_assigned(chosen, provider_of, inventories)))


def missing(
    inventories: Sequence[ResourceInventory], assigned: Sequence[AssignedResource]
) -> Iterator[AssignedResource]:
    """Yield the assigned resources that are in no inventory. They keep their owner, and are
    reported.
    """
    if not assigned:  # most claims
        return
    present = {(each.resource_class, name) for each in inventories for name in each.identifiers}
    for resource in assigned:
        if (resource.resource_class, resource.identifier) not in present:
            yield resource


def _claimed(state: NodeState) -> dict[str, str]:
    return {name: owner for (kind, name), owner in state.units.items() if kind == RESOURCE}


def _used_by_domains(state: NodeState) -> dict[str, list[str]]:
    """Return the running domains that use each resource without, or in addition to, a claim."""
    bound = (each for each in state.domain_usages.values() if _has_resources(each))
    domains = sorted(bound, key=lambda usage: usage.domain_uuid)
    mdevs = mdev_names(state) if any(usage.occupancy.mdevs for usage in domains) else {}
    used: dict[str, list[str]] = {}
    for usage in domains:
        for name in _used_by(usage, mdevs):
            used.setdefault(name, []).append(usage.domain_uuid)
    return used


def _has_resources(usage: DomainUsage) -> bool:
    return bool(usage.occupancy.mdevs or usage.occupancy.namespaces)


def used_by_domain(state: NodeState, usage: DomainUsage) -> frozenset[str]:
    """Return the resources that a domain uses."""
    return _used_by(usage, mdev_names(state) if usage.occupancy.mdevs else {})


def _used_by(usage: DomainUsage, mdevs: Mapping[str, str]) -> frozenset[str]:
    """Return the resources that a domain uses: none if it does not run.

    :param mdevs: identifiers of mediated devices, by uuid.
    """
    if not usage.active:
        return frozenset()
    found = (mdevs[uuid] for uuid in usage.occupancy.mdevs if uuid in mdevs)
    return usage.occupancy.namespaces.union(found)


def mdev_names(state: NodeState) -> dict[str, str]:
    """Return the identifiers of the mediated devices of all inventories, by uuid."""
    mediated = (each for each in state.resource_inventories if each.provider)
    return {
        mdev_uuid(state.node.uuid, name): name for each in mediated for name in each.identifiers
    }


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
    chosen: Iterable[tuple[str, _Found]],
    provider_of: Callable[[str], str],
    inventories: Iterable[ResourceInventory],
) -> Iterator[AssignedResource]:
    """Yield the resources of a choice. :param chosen: by resource class."""
    namespaces = {each.name: each for inventory in inventories for each in inventory.namespaces}
    for resource_class, found in chosen:
        for parent, identifier in found:
            yield AssignedResource(
                resource_class=resource_class,
                identifier=identifier,
                provider=provider_of(parent),
                parent_addr=parent or None,
                namespace=namespaces.get(identifier),
            )


def _number(request: ResourceRequest) -> int:
    return request if isinstance(request, int) else len(request)


def _choices(
    free: Mapping[str, list[str]], request: ResourceRequest, share: Mapping[str, int] | None
) -> list[_Found]:
    """Return what may be assigned of one class, the preferred choice first.

    If there is not enough, return the one choice with the most.

    :param share: as in `resource_choices`, of this class.
    """
    if isinstance(request, tuple):
        names = dict.fromkeys(request)
        return [[(parent, n) for n in names for parent in free if n in free[parent]]]
    if share is not None:
        taken = ((parent, free.get(parent, [])[:number]) for parent, number in share.items())
        return [[(parent, name) for parent, names in taken for name in names]]
    by_size = sorted(free.items(), key=lambda each: len(each[1]))
    enough = [each for each in by_size if len(each[1]) >= request]
    chosen = enough or by_size[-1:] or [("", [])]
    return [[(parent, name) for name in names[:request]] for parent, names in chosen]


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
