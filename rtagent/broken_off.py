"""Moves that end because their claims do: by a release, a lapse, or their instance's deletion."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from rtagent.model.change import Change, Event
from rtagent.model.claim import INCOMING, OUTGOING, RELEASED, Claim
from rtagent.model.host import HostState
from rtagent.model.migration import ENDED, ERROR, LET_GO, Migration


def broken_off(state: HostState, made: Change, events: Sequence[Event]) -> Iterator[Migration]:
    """The records of these moves as they are then, but for those that the change tells itself.

    A guest that never arrived makes an error. What was kept for its return and is given up confirms
    the move, as its deletion does in Nova; but not where it was taken up elsewhere meanwhile.
    """
    told = {migration.uuid for migration in made.migrations}
    ended: dict[str, list[Event]] = {}
    for event in events:
        uuid = event.after.migration_uuid
        if event.after.state == RELEASED and uuid is not None and uuid not in told:
            ended.setdefault(uuid, []).append(event)
    for uuid, ends in ended.items():
        record = state.migrations.get(uuid)
        if record is None or record.status in ENDED:
            continue
        status = _status(state, record, ends)
        if status is not None:
            yield replace(record, status=status, updated_at=made.at)


def _status(state: HostState, record: Migration, ends: Sequence[Event]) -> str | None:
    before = [(event.before, event.action) for event in ends if event.before is not None]
    if any(claim.state == INCOMING for claim, _ in before):
        return ERROR
    if any(claim.state == OUTGOING and action == "evacuated" for claim, action in before):
        return ERROR
    if any(claim.state == OUTGOING for claim, _ in before) and not _expected(state, record):
        return LET_GO[record.migration_type]
    return None


def _expected(state: HostState, record: Migration) -> bool:
    """Whether its guest has yet to arrive, on this same host."""
    dest: Claim | None = state.claims.get(record.claim_uuid or "")
    return dest is not None and dest.state == INCOMING
