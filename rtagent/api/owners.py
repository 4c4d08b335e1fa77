"""Who has something, as documents name him."""

from __future__ import annotations

from rtagent.model.base import Value
from rtagent.model.claim import Claim, Unit
from rtagent.model.host import HostState


class Owner(Value, frozen=True, kw_only=True):
    """Who has a unit.

    :ivar owner_id: the instance, or the foreign domain. :ivar name: of that one.
    :ivar claim_uuid: None where no claim says so.
    """

    owner_id: str | None = None
    name: str | None = None
    claim_uuid: str | None = None


NOBODY = Owner()


def holder(state: HostState, unit: Unit) -> Claim | None:
    """The claim that has a unit; of several, which are one owner's, the first."""
    owner = state.units.get(unit)
    claims = state.claims_of(owner) if owner else ()
    return next((claim for claim in claims if unit in claim.units), None)


def owner_of(state: HostState, owner_id: str | None, claim: Claim | None) -> Owner:
    """:param owner_id: who has it, or None. :param claim: by which he does; None: his domain was
    seen to use it."""
    if owner_id is None:
        return NOBODY
    if claim is not None:
        name = claim.instance.display_name
        return Owner(owner_id=owner_id, name=name, claim_uuid=claim.uuid)
    holding = state.holdings.get(owner_id)
    return Owner(owner_id=owner_id, name=holding.name if holding else None)
