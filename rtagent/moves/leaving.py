"""The source's side: a guest leaves, and comes back."""

from __future__ import annotations

from datetime import datetime

from rtagent.model.change import Call, Event
from rtagent.model.decision import Granted
from rtagent.model.host import HostState
from rtagent.model.migration import (
    BEGUN,
    ENDED,
    ERROR,
    OVER,
    REVERTED,
    SOURCE,
    UNDER_WAY,
    MigrationFacts,
)
from rtagent.moves.parties import noted, parties
from rtagent.transitions import granted, moved, unchanged

#: Statuses that a move has before its guest is on the way.
WAITING = frozenset({*BEGUN.values(), "accepted", "queued"})


def start_move_out(
    state: HostState, owner_id: str, told: MigrationFacts, call: Call, now: datetime
) -> Granted:
    """The guest is about to leave; its claim is held for its return.

    :raises ClaimNotFound: ClaimExpired: IllegalTransition: ClaimConflict:
    """
    move = parties(state, owner_id, told)
    before = move.source
    if before is None:
        raise move.no_source("start_move_out")
    if move.status in ENDED:
        raise move.too_late("start_move_out")
    if move.elsewhere:
        raise move.moved_on(before, "start_move_out")
    after = moved(before, "start_move_out", state, now, suspect=None, migration_uuid=told.uuid)
    begun = move.status is None or move.status in WAITING
    status = UNDER_WAY[told.migration_type] if begun else str(move.status)
    return granted(
        state,
        call,
        now,
        Event(before=before, after=after, action="start_move_out"),
        migrations=(noted(state, move, SOURCE, after, status, now),),
    )


def finish_revert(
    state: HostState, owner_id: str, told: MigrationFacts, call: Call, now: datetime
) -> Granted:
    """The guest is back, or about to be started here again.

    :raises ClaimNotFound: ClaimExpired: IllegalTransition: ClaimConflict:
    """
    move = parties(state, owner_id, told)
    before = move.source
    if before is None:
        raise move.no_source("finish_revert")
    if move.status in OVER:
        raise move.too_late("finish_revert")
    if move.elsewhere and move.status not in ENDED:
        raise move.moved_on(before, "finish_revert")
    if move.elsewhere:  # this one was served, and the next move has begun
        return unchanged(call, now, before)
    after = moved(before, "finish_revert", state, now)
    status = ERROR if move.status == ERROR else REVERTED
    return granted(
        state,
        call,
        now,
        Event(before=before, after=after, action="finish_revert"),
        migrations=(noted(state, move, SOURCE, after, status, now),),
    )
