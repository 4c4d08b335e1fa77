"""Quantities of the resource classes that provider files offer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rtagent.allocation.capacity import additional_shortfall
from rtagent.model.assigned_resources import AssignedQuantity
from rtagent.model.base import Value
from rtagent.model.decision import Reason, ReasonCode, Refused, refuse
from rtagent.model.node_state import NodeState
from rtagent.model.placement_policy import AdditionalInventory
from rtagent.model.provider_names import provider_uuid


class FittedQuantities(Value, frozen=True):
    """All requested quantities."""

    quantities: tuple[AssignedQuantity, ...]


def fit_quantities(
    state: NodeState,
    owner_id: str,
    requests: Mapping[str, int],
    shares: Mapping[str, Mapping[str, int]] | None,
) -> FittedQuantities | Refused:
    """Return all requested quantities, or every reason why they are not available.

    Without shares, the first provider with enough gives all of a quantity, as in Placement.

    :param requests: by resource class.
    :param shares: by class and by the suffix of the provider's name. A class without any is counted
        by another service. None: the claim follows no allocation.
    """
    fitted: list[AssignedQuantity] = []
    reasons: list[Reason] = []
    for resource_class, quantity in sorted(requests.items()):
        inventories = [
            each
            for each in state.policy.placement.additional
            if each.resource_class == resource_class
        ]
        if shares is not None:
            share = shares.get(resource_class, {})
            chosen = [(each, share[each.suffix]) for each in inventories if each.suffix in share]
            reasons += _shortfalls(state, owner_id, chosen)
        elif not inventories:
            reasons.append(_not_offered(state, resource_class, quantity))
            continue
        else:
            found = [list(_shortfalls(state, owner_id, [(each, quantity)])) for each in inventories]
            fitting = (each for each, bad in zip(inventories, found, strict=True) if not bad)
            fits = next(fitting, None)
            chosen = [(fits, quantity)] if fits is not None else []
            if fits is None:
                reasons.append(min((reason for bad in found for reason in bad), key=_miss))
        fitted += (_assigned(state, each, number) for each, number in chosen)
    return refuse(reasons) if reasons else FittedQuantities(tuple(fitted))


def _shortfalls(
    state: NodeState, owner_id: str, chosen: list[tuple[AdditionalInventory, int]]
) -> Iterator[Reason]:
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


def _not_offered(state: NodeState, resource_class: str, quantity: int) -> Reason:
    return Reason(
        code=ReasonCode.NOT_OFFERED,
        resource=resource_class,
        where=state.node.hypervisor_hostname,
        requested=quantity,
        available=0,
        unit="units",
    )


def _miss(reason: Reason) -> float:
    return float(reason.miss)
