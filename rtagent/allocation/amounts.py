"""Amounts of the resource classes that provider files offer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rtagent.allocation.capacity import offered_shortfall
from rtagent.model.assigned_resources import AssignedAmount
from rtagent.model.base import Value
from rtagent.model.decision import Reason, ReasonCode, Refused, refuse
from rtagent.model.node_state import NodeState
from rtagent.model.placement_policy import OfferedInventory
from rtagent.model.provider_names import provider_uuid


class FittedAmounts(Value, frozen=True):
    """All requested amounts."""

    amounts: tuple[AssignedAmount, ...]


def fit_amounts(
    state: NodeState,
    owner_id: str,
    requests: Mapping[str, int],
    shares: Mapping[str, Mapping[str, int]] | None,
) -> FittedAmounts | Refused:
    """Return all requested amounts, or every reason why they are not available.

    Without shares, the first provider with enough gives all of an amount, as in Placement.

    :param requests: by resource class.
    :param shares: by class and by the suffix of the provider's name. A class without any is counted
        by another service. None: the claim follows no allocation.
    """
    fitted: list[AssignedAmount] = []
    reasons: list[Reason] = []
    for resource_class, amount in sorted(requests.items()):
        offered = [
            each for each in state.policy.placement.offered if each.resource_class == resource_class
        ]
        if shares is not None:
            share = shares.get(resource_class, {})
            chosen = [(each, share[each.suffix]) for each in offered if each.suffix in share]
            reasons += _shortfalls(state, owner_id, chosen)
        elif not offered:
            reasons.append(_not_offered(state, resource_class, amount))
            continue
        else:
            found = [list(_shortfalls(state, owner_id, [(each, amount)])) for each in offered]
            fits = next((each for each, bad in zip(offered, found, strict=True) if not bad), None)
            chosen = [(fits, amount)] if fits is not None else []
            if fits is None:
                reasons.append(min((reason for bad in found for reason in bad), key=_miss))
        fitted += (_assigned(state, each, number) for each, number in chosen)
    return refuse(reasons) if reasons else FittedAmounts(tuple(fitted))


def _shortfalls(
    state: NodeState, owner_id: str, chosen: list[tuple[OfferedInventory, int]]
) -> Iterator[Reason]:
    for offered, amount in chosen:
        reason = offered_shortfall(state, owner_id, offered, amount)
        if reason is not None:
            yield reason


def _assigned(state: NodeState, offered: OfferedInventory, amount: int) -> AssignedAmount:
    return AssignedAmount(
        provider=provider_uuid(state.node, state.policy.placement, offered.suffix),
        suffix=offered.suffix,
        resource_class=offered.resource_class,
        amount=amount,
    )


def _not_offered(state: NodeState, resource_class: str, amount: int) -> Reason:
    return Reason(
        code=ReasonCode.NOT_OFFERED,
        resource=resource_class,
        where=state.node.hypervisor_hostname,
        requested=amount,
        available=0,
        unit="units",
    )


def _miss(reason: Reason) -> float:
    return float(reason.miss)
