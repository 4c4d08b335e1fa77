"""Live claims, as documents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rtagent.errors import ClaimNotFound, InvalidRequest
from rtagent.model.claim import LIVE_STATES
from rtagent.model.host import HostState

FILTERS = frozenset({"instance", "state"})


def collection(state: HostState, filters: Mapping[str, str]) -> Mapping[str, Any]:
    """Shape: ``{"claims": [Claim]}``, oldest first.

    :param filters: ``instance`` (an owner's uuid) and ``state``; all of those given must match.
    :raises InvalidRequest: a state in which no live claim can be.
    """
    wanted = filters.get("state")
    if wanted is not None and wanted not in LIVE_STATES:
        raise InvalidRequest(
            method="GET /claims",
            errors=[{"path": "state", "message": f"not one of {', '.join(sorted(LIVE_STATES))}"}],
        )
    owner = filters.get("instance")
    claims = state.claims.values() if owner is None else state.claims_of(owner)
    chosen = (claim for claim in claims if wanted in (None, claim.state))
    return {"claims": sorted(chosen, key=lambda claim: (claim.created_at, claim.uuid))}


def member(state: HostState, uuid: str) -> Mapping[str, Any]:
    """Shape: ``{"claim": Claim}``.

    :raises ClaimNotFound: it never was, or it has ended.
    """
    claim = state.claims.get(uuid)
    if claim is None:
        raise ClaimNotFound(claim_uuid=uuid)
    return {"claim": claim}
