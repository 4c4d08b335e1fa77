"""Guests that came up on another host while this one was away."""

from __future__ import annotations

from collections.abc import Mapping

from rtagent.model.claim import ACTIVE, OUTGOING
from rtagent.model.host import HostState
from rtagent.model.observation import Domain
from rtagent.reconcile.step import Move


def taken_over(base: HostState, evacuated: Mapping[str, str]) -> Mapping[str, Move]:
    """The ends of these claims, but of one that was made after the snapshot, which waits for the
    next audit, and of one whose guest has come back from that very host since: clocks of two hosts
    differ, and what came from there cannot be older."""
    moves: dict[str, Move] = {}
    for uuid in evacuated.keys() & base.claims.keys():
        claim, host = base.claims[uuid], evacuated[uuid]
        came = base.migrations.get(claim.migration_uuid or "")
        if claim.state in (ACTIVE, OUTGOING) and (came is None or came.source_compute != host):
            reason = f"its guest was evacuated to {host}"
            moves[uuid] = Move(claim_uuid=uuid, verb="evacuated", reason=reason)
    return moves


def known(domain: Domain | None, complete: bool) -> bool:
    """Whether it can be said what a guest uses here, so that nothing of it is lost count of."""
    return complete if domain is None else domain.holding() is not None
