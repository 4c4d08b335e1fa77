"""Guests that came up on another host while this one was away."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from rtagent.model.claim import ACTIVE, OUTGOING
from rtagent.model.host import HostState
from rtagent.model.migration import LET_GO, SOURCE, Migration, TakenOver
from rtagent.model.observation import Domain
from rtagent.reconcile.step import Move


def taken_over(base: HostState, evacuated: Mapping[str, TakenOver]) -> Mapping[str, Move]:
    """The ends of these claims, but of one that was made after the snapshot, which waits for the
    next audit, and of one whose guest has come back from that very host since: clocks of two hosts
    differ, and what came from there cannot be older."""
    moves: dict[str, Move] = {}
    for uuid in evacuated.keys() & base.claims.keys():
        claim, by = base.claims[uuid], evacuated[uuid]
        came = base.migrations.get(claim.migration_uuid or "")
        if claim.state in (ACTIVE, OUTGOING) and (came is None or came.source_compute != by.host):
            reason = f"its guest was evacuated to {by.host}"
            moves[uuid] = Move(claim_uuid=uuid, verb="evacuated", reason=reason, taken_over=by)
    return moves


def recorded(state: HostState, moves: Iterable[Move], now: datetime) -> Iterator[Migration]:
    """That these evacuations are over here: whoever says so later says what is known, and releases
    nothing that the guest has here by then."""
    for move in moves:
        by = move.taken_over
        if by is not None and by.migration_uuid and by.migration_uuid not in state.migrations:
            yield Migration(
                uuid=by.migration_uuid,
                node_uuid=state.node.uuid,
                role=SOURCE,
                instance_uuid=state.claims[move.claim_uuid].owner_id,
                migration_type="evacuation",
                status=LET_GO["evacuation"],
                claim_uuid=move.claim_uuid,
                source_compute=state.node.host,
                source_node=state.node.hypervisor_hostname,
                dest_compute=by.host,
                created_at=now,
                updated_at=now,
            )


def known(domain: Domain | None, complete: bool) -> bool:
    """Whether it can be said what a guest uses here, so that nothing of it is lost count of."""
    return complete if domain is None else domain.holding() is not None
