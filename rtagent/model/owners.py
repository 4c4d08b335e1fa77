"""What one owner may have on a node, and what it counts for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from rtagent.errors import InvariantViolated
from rtagent.model.claim import ATTACH, INCOMING, MOVE_KINDS, Claim
from rtagent.model.holding import Holding
from rtagent.model.usage import NOTHING, Usage


def main_claims(claims: Iterable[Claim]) -> tuple[Claim, ...]:
    """Those that say what the guest is, not what was added to it, in the order in which they were
    made: the claim that the owner has here, and the one that a move has made beside it."""
    return tuple(claim for claim in claims if claim.kind != ATTACH)


def age(claim: Claim) -> tuple[datetime, int, str]:
    """By which an owner's claims are in the order in which they were made. Of one moment: what was
    here, what was added to it, what is to take its place."""
    rank = 1 if claim.kind == ATTACH else 2 if claim.state == INCOMING else 0
    return claim.created_at, rank, claim.uuid


def owner_usage(claims: Iterable[Claim], holding: Holding | None, *, reuse: bool = False) -> Usage:
    """One owner: its claims' sum, or its domain's use where that is larger.

    :param reuse: of a resize on one host, resource by resource the larger claim alone counts: one
        owner never runs both domains (LP1790204).
    """
    added, total = NOTHING, NOTHING
    for claim in claims:
        if reuse and claim.kind != ATTACH:
            total = total.larger(claim.usage)
        else:
            added = added.plus(claim.usage)
    total = total.plus(added)
    return total if holding is None else total.larger(holding.usage)


def check_owner(owner_id: str, claims: Sequence[Claim]) -> None:
    """:raises InvariantViolated: it has more claims than one, and the one that a move made."""
    mains = main_claims(claims)
    made = [claim for claim in mains if claim.kind in MOVE_KINDS]
    incoming = [claim for claim in mains if claim.state == INCOMING]
    if len(mains) > 2 or len(mains) - len(made) > 1 or len(incoming) > 1:
        listed = ", ".join(claim.uuid for claim in mains)
        raise InvariantViolated(f"owner {owner_id} has more than one claim: {listed}")
