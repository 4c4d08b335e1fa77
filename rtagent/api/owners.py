"""The owner of a unit (a CPU, a device, an assigned resource) in JSON views."""

from __future__ import annotations

from rtagent.model.base import Value
from rtagent.model.claim import Claim, Unit
from rtagent.model.node_state import NodeState


class Owner(Value, frozen=True, kw_only=True):
    """:ivar owner_id: uuid of the instance or of the foreign domain; None if the unit is free.
    :ivar name: the name of the instance or domain. :ivar claim_uuid: None if no claim has the unit.
    """

    owner_id: str | None = None
    name: str | None = None
    claim_uuid: str | None = None


NO_OWNER = Owner()


def claim_of(state: NodeState, unit: Unit) -> Claim | None:
    """The claim that has a unit; of several of the same owner, the first."""
    owner = state.units.get(unit)
    claims = state.claims_of(owner) if owner else ()
    if len(claims) == 1:  # most owners
        return claims[0]
    return next((claim for claim in claims if unit in claim.units), None)


def owner_of(state: NodeState, owner_id: str | None, claim: Claim | None) -> Owner:
    """Describe an owner.

    :param owner_id: None if the unit is free.
    :param claim: by which the owner has the unit; None: its domain was observed to use it.
    """
    if owner_id is None:
        return NO_OWNER
    if claim is not None:
        name = claim.instance.display_name
        return Owner(owner_id=owner_id, name=name, claim_uuid=claim.uuid)
    domain_usage = state.domain_usages.get(owner_id)
    return Owner(owner_id=owner_id, name=domain_usage.name if domain_usage else None)
