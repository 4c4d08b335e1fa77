"""Assigned resources (vPMEM namespaces, mdevs): users, inventories, and the fit for a claim.

A claim gets resources with identifiers, never only a number of resources.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from rtagent.model.assignment import AssignedResource, ResourceInventory
from rtagent.model.base import Value, grouped
from rtagent.model.claim import RESOURCE, Claim
from rtagent.model.decision import Reason, ReasonCode, Refused, refuse
from rtagent.model.domain_usage import DomainUsage
from rtagent.model.node_state import NodeState
from rtagent.pci import resource_groups
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
    numbered: Sequence[resource_groups.ResourceGroup] = (),
) -> Iterator[FittedResources | Refused]:
    """Yield each choice of resources, the preferred one first; or, once, every reason for none.

    The resources of a group, and those of one class without a group, come from one provider, as in
    Placement: the one with the fewest that are enough, so that the others can still satisfy larger
    requests. Shares may name several.

    :param users: the owner of each identifier in use. :param requests: by resource class.
    :param where: the node's name. :param provider_of: from `ResourceInventory.provider` to a uuid.
    :param reusable: identifiers that the owner may reuse; they are assigned first.
    :param shares: the numbers that Placement allocated, by class and `ResourceInventory.provider`;
        None: the claim follows no allocation.
    :param numbered: the flavor's numbered groups, parts of `requests`. Shares follow them already.
    """
    if not requests:  # most guests
        yield FittedResources(())
        return
    free = {name: dict[str, list[str]]() for name in requests}
    for each in inventories:
        if each.resource_class in free:
            found = _free(each, users, owner_id, reusable)
            free[each.resource_class][each.provider] = found
    given = {
        name: _given(free[name], request, None if shares is None else shares.get(name, {}))
        for name, request in requests.items()
        if shares is not None or isinstance(request, tuple)
    }
    numbers = {n: r for n, r in requests.items() if isinstance(r, int) and n not in given}
    groups = resource_groups.groups_of(numbers, numbered)
    reasons = [
        _reason(name, where, number, len(given[name]), bool(free[name]))
        for name in sorted(given)
        if len(given[name]) < (number := _number(requests[name]))
    ]
    fits = False
    for choice in _group_choices(groups, free):
        fits = True
        if reasons:
            break
        chosen = sorted({**given, **choice}.items())
        yield FittedResources(tuple(_assigned(chosen, provider_of, inventories)))
    if not fits or reasons:
        yield refuse([*reasons, *(() if fits else _shortages(groups, free, where, numbered))])


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
    return grouped(
        (name, usage.domain_uuid) for usage in domains for name in _used_by(usage, mdevs)
    )


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


def claimed_mdevs(claim: Claim) -> dict[str, AssignedResource]:
    """Return the mediated devices of a claim, by uuid."""
    mediated = (unit for unit in claim.resources if unit.parent_addr)
    return {mdev_uuid(claim.node_uuid, unit.identifier): unit for unit in mediated}


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
    inventory: ResourceInventory, users: Mapping[str, str], owner_id: str, reusable: frozenset[str]
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


def _given(
    free: Mapping[str, list[str]], request: ResourceRequest, share: Mapping[str, int] | None
) -> _Found:
    """Return what is available of the units that are named, or of a share."""
    if isinstance(request, tuple):
        return [(parent, n) for n in dict.fromkeys(request) for parent in free if n in free[parent]]
    return [(p, name) for p, number in (share or {}).items() for name in free.get(p, [])[:number]]


def _group_choices(
    groups: Sequence[resource_groups.ResourceGroup], free: Mapping[str, Mapping[str, list[str]]]
) -> Iterator[dict[str, _Found]]:
    """Yield the resources of each class, for each choice of providers that have enough. Those with
    the least that is enough are preferred.
    """
    for providers in resource_groups.assignments(groups, *_rules(free)):
        left = {(name, p): iter(ids) for name, of in free.items() for p, ids in of.items()}
        chosen: dict[str, _Found] = {}
        for group, provider in zip(groups, providers, strict=True):
            for name, number in group.quantities.items():
                taken = itertools.islice(left[name, provider], number)
                chosen.setdefault(name, []).extend((provider, each) for each in taken)
        yield chosen


def _rules(
    free: Mapping[str, Mapping[str, list[str]]],
) -> tuple[resource_groups.Preferred, resource_groups.Fits]:
    def preferred(group: resource_groups.ResourceGroup) -> Sequence[str]:
        sizes = Counter[str]()
        for name in group.quantities:
            sizes.update({provider: len(found) for provider, found in free[name].items()})
        return sorted(sizes, key=lambda provider: sizes[provider])

    def fits(provider: str, quantities: Mapping[str, int]) -> bool:
        return all(len(free[name].get(provider, ())) >= n for name, n in quantities.items())

    return preferred, fits


def _shortages(
    groups: Sequence[resource_groups.ResourceGroup],
    free: Mapping[str, Mapping[str, list[str]]],
    where: str,
    numbered: Sequence[resource_groups.ResourceGroup],
) -> Iterator[Reason]:
    """Yield why no choice of providers has enough: for one group, or else for all together."""
    alone = [
        _reason(name, where, number, most, bool(free[name]))
        for group in groups
        for name, number in sorted(group.quantities.items())
        if number > (most := max(map(len, free[name].values()), default=0))
    ]
    most_of_all = {} if alone else resource_groups.most_assigned(groups, *_rules(free))
    yield from dict.fromkeys(alone)
    for name, number in sorted(resource_groups.totals_of(groups).items()):
        if not alone and number > (found := most_of_all.get(name, 0)):
            where_all = resource_groups.place_of_all(where, numbered)
            yield _reason(name, where_all, number, found, provided=True)


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
