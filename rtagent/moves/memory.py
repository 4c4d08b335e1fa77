"""Which moves are remembered."""

from __future__ import annotations

from datetime import datetime

from rtagent.model.change import Change
from rtagent.model.host import HostState
from rtagent.model.migration import ENDED, Migration


def forget(state: HostState, before: datetime, now: datetime) -> Change | None:
    """Without the moves that were over before that time; None: there are none.

    A record that is kept for as long as operations are makes a call of the move that comes again,
    under whatever operation id, find what it did; without it, a confirmation that comes a second
    time could release the claim of an instance that has moved back since. A move that one of its
    claims still takes part in is never forgotten.
    """
    old = tuple(uuid for uuid, record in state.migrations.items() if _past(state, record, before))
    return Change(cause="purge", at=now, migration_removals=old) if old else None


def _past(state: HostState, record: Migration, before: datetime) -> bool:
    if record.updated_at >= before:
        return False
    claims = state.claims_of(record.instance_uuid)
    if any(claim.migration_uuid == record.uuid for claim in claims):
        return False
    return record.status in ENDED or record.claim_uuid not in state.claims
