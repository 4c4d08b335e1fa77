"""Purge rows that are kept for a limited time, in chunks."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Engine, Table, delete, func, or_, select

from rtagent.db.claim_rows import CLAIMS, read_released
from rtagent.db.node_documents import read_retention
from rtagent.db.registry import database_now
from rtagent.db.schema import claim_events, claims, operations
from rtagent.db.transaction import Transactions
from rtagent.model.claim import LIVE_STATES, RELEASED

#: The number of rows that one transaction deletes, so that commits are not blocked for long.
CHUNK = 1000


def purge_node(
    transactions: Transactions, node_uuid: str, revision: int, dry_run: bool = False
) -> int:
    """Delete the operations and the released claims up to a revision. Return the number of deleted
    rows.

    :param dry_run: only count the rows that would be deleted.

    A claim whose row is damaged may only seem to be released. Its row is kept.
    """
    its = operations.c.revision
    old = operations.c.node_uuid == node_uuid, or_(its.is_(None), its <= revision)
    released = (
        claims.c.node_uuid == node_uuid,
        claims.c.state == RELEASED,
        claims.c.revision <= revision,
    )
    kept = claims.c.uuid.not_in(_damaged(transactions, *released))
    purge = _count if dry_run else _purge
    deleted = purge(transactions, operations, "operation_id", *old)
    return deleted + purge(transactions, claims, "uuid", *released, kept)


def purge_expired(engine: Engine, node_uuid: str, retention: float, dry_run: bool = False) -> int:
    """Delete the operations and the released claims that a node's agent has counted as older than
    `retention` seconds. Return the number of deleted rows.

    :raises StoreUnavailable:
    """
    transactions = Transactions(engine)
    with transactions.query() as connection:
        revision = read_retention(connection, node_uuid).expired_revision(retention)
    return purge_node(transactions, node_uuid, revision, dry_run) if revision else 0


def purge_history(engine: Engine, age: timedelta, now: datetime, dry_run: bool = False) -> int:
    """Delete the events that are older than that, of all nodes, except those of live claims. Return
    the number of deleted rows.

    :param now: of this host; a server has a clock of its own.
    :raises StoreUnavailable:
    """
    transactions = Transactions(engine)
    with transactions.query() as connection:
        before = connection.scalars(select(database_now(engine.dialect, now))).one() - age
    live = select(claims.c.uuid).where(claims.c.state.in_(sorted(LIVE_STATES)))
    ended = claim_events.c.at < before, claim_events.c.claim_uuid.not_in(live)
    return (_count if dry_run else _purge)(transactions, claim_events, "id", *ended)


def _damaged(transactions: Transactions, *condition: Any) -> Sequence[str]:
    """Return the claims whose row is damaged."""
    chunk = select(*CLAIMS.checked.selected).where(*condition).order_by(claims.c.uuid).limit(CHUNK)
    damaged: list[str] = []
    last = ""
    while True:
        with transactions.query() as connection:
            rows = connection.execute(chunk.where(claims.c.uuid > last)).all()
        if not rows:
            return damaged
        damaged += [row[0] for row in rows if read_released(row).faults]
        last = rows[-1][0]


def _count(transactions: Transactions, table: Table, key: str, *condition: Any) -> int:
    """Return the number of rows that `_purge` would delete."""
    with transactions.query() as connection:
        return connection.scalars(select(func.count(table.c[key])).where(*condition)).one()


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
