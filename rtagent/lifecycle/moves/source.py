"""The source of a move: the guest leaves, and may come back."""

from __future__ import annotations

from rtagent.lifecycle.consequences import unchanged
from rtagent.lifecycle.moves.context import MoveContext, move_rule
from rtagent.model.decision import Granted
from rtagent.model.migration import (
    ENDED,
    ERROR,
    INITIAL_STATUS,
    MOVING_STATUS,
    REVERTED,
    SOURCE,
    SUCCEEDED,
)

#: Statuses before the guest moves.
PENDING = frozenset({*INITIAL_STATUS.values(), "accepted", "queued"})


@move_rule
def start_move_out(move: MoveContext) -> Granted:
    """Hold the claim of a guest that is about to leave, for its return.

    :raises ClaimNotFound: ClaimExpired: IllegalTransition:
    """
    before = move.source
    if before is None:
        raise move.no_source()
    if move.status in ENDED:
        raise move.too_late()
    if move.in_other_move:
        raise move.other_move(before)
    suspect = before.suspect if before.quarantined else None
    left = move.event(before, suspect=suspect, migration_uuid=move.facts.uuid)
    pending = move.status is None or move.status in PENDING
    status = MOVING_STATUS[move.facts.migration_type] if pending else str(move.status)
    return move.granted(move.record_with(status, SOURCE, before), left)


@move_rule
def finish_revert(move: MoveContext) -> Granted:
    """Activate the claim of a guest that is back, or about to be started here again.

    :raises ClaimNotFound: ClaimExpired: IllegalTransition:
    """
    before = move.source
    if before is None:
        raise move.no_source()
    if move.status in SUCCEEDED:
        raise move.too_late()
    if move.in_other_move and move.status not in ENDED:
        raise move.other_move(before)
    if move.in_other_move:  # a repeat, after the next move has begun
        return unchanged(move.call, move.now, before)
    status = ERROR if move.status == ERROR else REVERTED
    return move.granted(move.record_with(status, SOURCE, before), move.event(before))
