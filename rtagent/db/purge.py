"""Purge rows that are kept for a limited time, in chunks."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Engine, Table, delete, select

from rtagent.db.schema import claim_events, claims, operations
from rtagent.db.transaction import Transactions
from rtagent.model.claim import LIVE_STATES, RELEASED

#: The number of rows that one transaction deletes, so that commits are not blocked for long.
CHUNK = 1000


def purge_node(transactions: Transactions, node_uuid: str, before: datetime) -> int:
    """Delete the operations and the released claims from before that time. Return the number of
    deleted rows.
    """
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
    """Delete the events from before that time, of all nodes, except those of live claims. Return
    the number of deleted rows.

    :raises StoreUnavailable:
    """
    live = select(claims.c.uuid).where(claims.c.state.in_(sorted(LIVE_STATES)))
    ended = claim_events.c.at < before, claim_events.c.claim_uuid.not_in(live)
    return _purge(Transactions(engine), claim_events, "id", *ended)


def _purge(transactions: Transactions, table: Table, key: str, *condition: Any) -> int:
    """Find rows without a lock, and delete them by key, so that each lock is short."""
    chunk = select(table.c[key]).where(*condition).limit(CHUNK)
    deleted = 0
    while True:
        with transactions.query() as connection:
            keys = connection.scalars(chunk).all()
        if not keys:
            return deleted
        with transactions.write_repeatable() as connection:
            found = delete(table).where(*condition, table.c[key].in_(keys))
            deleted += connection.execute(found).rowcount
