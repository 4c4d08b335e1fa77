"""Forgetting: what is kept for a time only, deleted a little at a time."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Engine, Table, delete, select

from rtagent.db.schema import claim_events, claims, operations
from rtagent.db.transaction import Transactions
from rtagent.model.claim import LIVE_STATES, RELEASED

#: How many rows one transaction deletes, so that commits get in between.
CHUNK = 1000


def purge_node(transactions: Transactions, node_uuid: str, before: datetime) -> int:
    """Operations, and claims released, before that time; how many rows went."""
    old = operations.c.node_uuid == node_uuid, operations.c.at < before
    released = (
        claims.c.node_uuid == node_uuid,
        claims.c.state == RELEASED,
        claims.c.updated_at < before,
    )
    return _purge(transactions, operations, "operation_id", *old) + _purge(
        transactions, claims, "uuid", *released
    )


def purge_history(engine: Engine, before: datetime) -> int:
    """Events before that time, of every node, but those of live claims; how many rows went.

    :raises StoreUnavailable:
    """
    live = select(claims.c.uuid).where(claims.c.state.in_(sorted(LIVE_STATES)))
    ended = claim_events.c.at < before, claim_events.c.claim_uuid.not_in(live)
    return _purge(Transactions(engine), claim_events, "id", *ended)


def _purge(transactions: Transactions, table: Table, key: str, *condition: Any) -> int:
    """Found without a lock, and deleted by key, so that the lock is held for a moment."""
    chunk = select(table.c[key]).where(*condition).limit(CHUNK)
    gone = 0
    while True:
        with transactions.look() as connection:
            keys = connection.scalars(chunk).all()
        if not keys:
            return gone
        with transactions.rewrite() as connection:
            found = delete(table).where(*condition, table.c[key].in_(keys))
            gone += connection.execute(found).rowcount
