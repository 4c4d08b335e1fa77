"""Contexts for the encryption of guests' memory: what the host offers, and the fit for a claim."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from rtagent.allocation.capacity import additional_shortfall
from rtagent.model.assignment import AssignedQuantity
from rtagent.model.base import Value
from rtagent.model.decision import Reason, ReasonCode, Refused, refuse
from rtagent.model.mem_encryption import (
    AMD_SEV,
    RESOURCE_CLASS,
    EncryptionCapacity,
    MemEncryption,
    provider_suffix,
)
from rtagent.model.node_state import NodeState
from rtagent.model.policy import AdditionalInventory
from rtagent.model.provider_names import provider_name, provider_uuid


class FittedEncryption(Value, frozen=True):
    """The encryption of a guest and its context; both are None if it requests none."""

    encryption: MemEncryption | None = None
    context: AssignedQuantity | None = None


def context_inventories(state: NodeState) -> Mapping[str, AdditionalInventory]:
    """Return the contexts that the host has, by model, without models of which there are none."""
    topology = state.topology
    supported = topology.mem_encryption if topology is not None else ()
    numbers = {each.model: _number(state, each) for each in supported}
    return {
        model: AdditionalInventory(
            suffix=provider_suffix(model),
            resource_class=RESOURCE_CLASS,
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
    suffix, inventory = provider_suffix(model), context_inventories(state).get(model)
    if inventory is None:
        return refuse([_not_offered(provider_name(state.node, suffix))])
    if (reason := additional_shortfall(state, owner_id, inventory, 1)) is not None:
        return refuse([reason])
    assert state.topology is not None, "it offers contexts"
    host = next(each for each in state.topology.mem_encryption if each.model == model)
    context = AssignedQuantity(
        provider=provider_uuid(state.node, state.policy.placement, suffix),
        suffix=suffix,
        resource_class=RESOURCE_CLASS,
        quantity=1,
    )
    return FittedEncryption(host.of_guest, context)


def _number(state: NodeState, capacity: EncryptionCapacity) -> int:
    """Return the number of contexts: libvirt's, which the operator may lower for AMD SEV, and must
    give if libvirt does not.
    """
    allowed = state.policy.max_sev_guests if capacity.model == AMD_SEV else None
    numbers = (each for each in (capacity.contexts, allowed) if each is not None)
    return min(numbers, default=0)


def _not_offered(where: str) -> Reason:
    return Reason(
        code=ReasonCode.NOT_OFFERED,
        resource=RESOURCE_CLASS,
        where=where,
        requested=1,
        available=0,
        unit="contexts",
    )
