"""Quantities that a claim gets by number: of the resource classes that provider files offer, and
contexts for the encryption of memory.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal

from msgspec import UnsetType
from msgspec.structs import replace

from rtagent.allocation.capacity import additional_shortfall
from rtagent.model import mem_encryption
from rtagent.model.assignment import AssignedQuantity
from rtagent.model.base import Value
from rtagent.model.decision import Reason, ReasonCode, Refused, refuse
from rtagent.model.node_state import NodeState
from rtagent.model.policy import AdditionalInventory
from rtagent.model.provider_names import provider_name, provider_uuid
from rtagent.pci.resource_groups import (
    ResourceGroup,
    assignments,
    groups_of,
    most_assigned,
    place_of_all,
    totals_of,
)

#: What provider files offer, by the suffix of the provider's name and by class.
_Offers = Mapping[tuple[str, str], AdditionalInventory]
#: Quantities of what is offered.
_Chosen = Sequence[tuple[AdditionalInventory, int]]


def fit_quantities(
    state: NodeState,
    owner_id: str,
    requests: Mapping[str, int],
    shares: Mapping[str, Mapping[str, int]] | None,
    numbered: Sequence[ResourceGroup] = (),
) -> tuple[AssignedQuantity, ...] | Refused:
    """Return all requested quantities, or every reason why they are not available.

    Without shares, the first provider with enough gives all of a group, and all of a class without
    a group, as in Placement.

    :param requests: by resource class.
    :param shares: by class and by the suffix of the provider's name. A class without any is counted
        by another service. None: the claim follows no allocation.
    :param numbered: the flavor's numbered groups, parts of `requests`.
    """
    if not requests:  # most guests
        return ()
    offers = {
        (each.suffix, each.resource_class): each for each in state.policy.placement.additional
    }
    if shares is None:
        return _chosen(state, owner_id, groups_of(requests, numbered), offers, numbered)
    shared = [
        (offers[suffix, name], quantity)
        for name in sorted(requests)
        for suffix, quantity in shares.get(name, {}).items()
        if (suffix, name) in offers
    ]
    return _fitted(state, shared, list(_shortfalls(state, owner_id, shared)))


def _chosen(
    state: NodeState,
    owner_id: str,
    groups: Sequence[ResourceGroup],
    offers: _Offers,
    numbered: Sequence[ResourceGroup],
) -> tuple[AssignedQuantity, ...] | Refused:
    def preferred(group: ResourceGroup) -> Sequence[str]:
        return list(dict.fromkeys(suffix for suffix, name in offers if name in group.quantities))

    def fits(suffix: str, quantities: Mapping[str, int]) -> bool:
        if any((suffix, name) not in offers for name in quantities):
            return False
        parts = [(offers[suffix, name], number) for name, number in quantities.items()]
        return not any(_shortfalls(state, owner_id, parts))

    providers = next(assignments(groups, preferred, fits), None)
    if providers is not None:
        sums = Counter[tuple[str, str]]()
        for group, suffix in zip(groups, providers, strict=True):
            sums.update({(suffix, name): number for name, number in group.quantities.items()})
        return _fitted(state, [(offers[key], number) for key, number in sorted(sums.items())])
    alone = [*_alone(state, owner_id, groups, offers)]
    if alone:
        return refuse(dict.fromkeys(alone))
    most, totals = most_assigned(groups, preferred, fits), totals_of(groups)
    where = place_of_all(state.node.hypervisor_hostname, numbered)
    return refuse(
        replace(_reason(state, name, number, most.get(name, 0)), where=where)
        for name, number in sorted(totals.items())
        if number > most.get(name, 0)
    )


def _alone(
    state: NodeState, owner_id: str, groups: Sequence[ResourceGroup], offers: _Offers
) -> Iterator[Reason]:
    """Yield the nearest miss of each quantity that no provider can give, even alone."""
    for name, quantity in (each for group in groups for each in sorted(group.quantities.items())):
        offered = [each for each in offers.values() if each.resource_class == name]
        if not offered:
            yield _reason(state, name, quantity, 0, ReasonCode.NOT_OFFERED)
            continue
        found = [list(_shortfalls(state, owner_id, [(each, quantity)])) for each in offered]
        if all(found):
            yield min((reason for bad in found for reason in bad), key=lambda each: each.miss)


def _fitted(
    state: NodeState, chosen: _Chosen, reasons: Sequence[Reason] = ()
) -> tuple[AssignedQuantity, ...] | Refused:
    if reasons:
        return refuse(reasons)
    return tuple(_assigned(state, each, number) for each, number in chosen)


def _shortfalls(state: NodeState, owner_id: str, chosen: _Chosen) -> Iterator[Reason]:
    for inventory, quantity in chosen:
        reason = additional_shortfall(state, owner_id, inventory, quantity)
        if reason is not None:
            yield reason


def _assigned(state: NodeState, inventory: AdditionalInventory, quantity: int) -> AssignedQuantity:
    return AssignedQuantity(
        provider=provider_uuid(state.node, state.policy.placement, inventory.suffix),
        suffix=inventory.suffix,
        resource_class=inventory.resource_class,
        quantity=quantity,
    )


def _reason(
    state: NodeState,
    resource_class: str,
    requested: int,
    available: int,
    code: ReasonCode = ReasonCode.INSUFFICIENT,
) -> Reason:
    return Reason(
        code=code,
        resource=resource_class,
        where=state.node.hypervisor_hostname,
        requested=requested,
        available=available,
        unit="units",
    )


class FittedEncryption(Value, frozen=True):
    """The encryption of a guest and its context; both are None if it requests none."""

    encryption: mem_encryption.MemEncryption | None = None
    context: AssignedQuantity | None = None


def context_inventories(state: NodeState) -> Mapping[str, AdditionalInventory]:
    """Return the contexts that the host has, by model, without models of which there are none."""
    topology = state.topology
    supported = topology.mem_encryption if topology is not None else ()
    numbers = {each.model: _number(state, each) for each in supported}
    return {
        model: AdditionalInventory(
            suffix=mem_encryption.provider_suffix(model),
            resource_class=mem_encryption.RESOURCE_CLASS,
            total=number,
            reserved=0,
            min_unit=1,
            max_unit=1,
            step_size=1,
            allocation_ratio=Decimal(1),
        )
        for model, number in numbers.items()
        if number
    }


def fit_encryption(
    state: NodeState, owner_id: str, model: str | None
) -> FittedEncryption | Refused:
    """Return the encryption of a guest and its context, or why there is none.

    :param model: that is requested, or None.
    """
    if model is None:
        return FittedEncryption()
    inventory = context_inventories(state).get(model)
    if inventory is None:
        where = provider_name(state.node, mem_encryption.provider_suffix(model))
        missing = _reason(state, mem_encryption.RESOURCE_CLASS, 1, 0, ReasonCode.NOT_OFFERED)
        return refuse([replace(missing, where=where, unit="contexts")])
    if (reason := additional_shortfall(state, owner_id, inventory, 1)) is not None:
        return refuse([reason])
    assert state.topology is not None, "it offers contexts"
    host = next(each for each in state.topology.mem_encryption if each.model == model)
    return FittedEncryption(host.of_guest, _assigned(state, inventory, 1))


def _number(state: NodeState, capacity: mem_encryption.EncryptionCapacity) -> int:
    """Return the number of contexts: the host's, which the operator may lower for AMD SEV and Intel
    TDX, and must give if the host does not say it.
    """
    allowed: Mapping[str, int | UnsetType | None] = {
        mem_encryption.AMD_SEV: state.policy.max_sev_guests,
        mem_encryption.INTEL_TDX: state.policy.max_tdx_guests,
    }
    numbers = (capacity.contexts, allowed.get(capacity.model))
    return min((number for number in numbers if isinstance(number, int)), default=0)
