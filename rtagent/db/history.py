"""What the database keeps of claims besides those that live: their events, how they ended, and
which of them another node has taken over. What is kept for a limited time is purged in chunks.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Engine, Select, Table, and_, bindparam, delete, func, or_, select

from rtagent.db.checked_rows import LONG_AGO
from rtagent.db.claim_rows import CLAIMS, read_released
from rtagent.db.node_rows import read_retention
from rtagent.db.registry import database_now
from rtagent.db.schema import claim_events, claims, compute_nodes, migrations, operations
from rtagent.db.tables import HISTORY
from rtagent.db.transaction import Transactions
from rtagent.model.claim import (
    ACTIVE,
    ATTACH,
    EVACUATION,
    LIVE_STATES,
    OUTGOING,
    RELEASED,
    ClaimEnd,
    ClaimEvent,
    ClaimFacts,
    HistoryPage,
    NumberedEvent,
)
from rtagent.model.migration import DEST, TakenOver

_UNKNOWN = ClaimFacts(state="", suspect=None, vcpus=0, pcpus=0, memory_mb=0, disk_mb=0)

#: The number of rows, of all nodes, that one read of the newest events looks at.
SPAN = 50_000


def read_history(
    connection: Connection, node_uuid: str, claim_uuid: str | None
) -> tuple[ClaimEvent, ...]:
    """Read the events of a claim, or of all claims of the node, oldest first."""
    query = select(*HISTORY.checked.selected).where(claim_events.c.node_uuid == node_uuid)
    if claim_uuid is not None:
        query = query.where(claim_events.c.claim_uuid == claim_uuid)
    return tuple(map(_decode, connection.execute(query.order_by(claim_events.c.id))))


def read_page(
    connection: Connection, node_uuid: str, claim_uuid: str | None, before: int | None, limit: int
) -> HistoryPage:
    """Read some events, newest first.

    :param claim_uuid: None: of all claims of the node. Then the table is read in the order of its
        key, and `SPAN` rows at most, because other nodes of a shared database write to it, too.
    :param before: only events with a lower number; None: the newest. :param limit: of the events.
    """
    number = claim_events.c.id
    query = select(number, *HISTORY.checked.selected).where(claim_events.c.node_uuid == node_uuid)
    lowest = 0
    if claim_uuid is not None:
        query = query.where(claim_events.c.claim_uuid == claim_uuid)
    else:
        highest = connection.execute(select(func.max(number))).scalar() or 0
        lowest = max(0, min(highest + 1, before or highest + 1) - SPAN)
        query = query.where(number >= lowest)
    if before is not None:
        query = query.where(number < before)
    rows = connection.execute(query.order_by(number.desc()).limit(limit)).all()
    events = tuple(NumberedEvent(number=row[0], event=_decode(row[1:])) for row in rows)
    if len(events) == limit:
        return HistoryPage(events=events, older=events[-1].number)
    return HistoryPage(events=events, older=lowest or None)


def _decode(raw: Sequence[Any]) -> ClaimEvent:
    """Return the event of a row, with the readable columns of one that is damaged."""
    row = HISTORY.decode(raw)
    fields = dict(row.values)
    if row.faults:
        fields |= {
            **{name: "" for name in HISTORY.columns if fields[name] is None},
            "at": fields["at"] or LONG_AGO,
            "before": fields["before"],
            "after": fields["after"] or _UNKNOWN,
            "reason": f"the record of this event is damaged: {', '.join(row.faults)}",
        }
    return ClaimEvent(**fields)


def read_ended(
    connection: Connection, node_uuid: str, owners: Collection[str]
) -> Mapping[str, ClaimEnd]:
    """Return how the last main claim of each of these owners ended, by owner.

    An owner of a damaged row is left out: the row may be that of a live claim.
    """
    last: dict[str, Mapping[str, Any]] = {}
    damaged: set[str] = set()
    released = select(*CLAIMS.checked.selected).where(
        claims.c.node_uuid == node_uuid,
        claims.c.owner_id.in_(sorted(owners)),
        claims.c.state == RELEASED,
    )
    for row in connection.execute(released):
        checked = read_released(row)
        owner = checked.values["owner_id"]
        if checked.faults:
            damaged.add(owner)
        elif checked.values["kind"] != ATTACH:
            known = last.get(owner)
            if known is None or known["revision"] < checked.values["revision"]:
                last[owner] = checked.values
    its = claim_events.c
    uuids = [values["uuid"] for values in last.values()]
    events = select(its.claim_uuid, its.action).where(
        its.node_uuid == node_uuid, its.claim_uuid.in_(uuids)
    )
    actions = {row.claim_uuid: row.action for row in connection.execute(events.order_by(its.id))}
    return {
        owner: ClaimEnd(
            claim_uuid=values["uuid"],
            action=actions.get(values["uuid"], ""),
            revision=values["revision"],
        )
        for owner, values in last.items()
        if owner not in damaged
    }


def read_evacuated(connection: Connection, node_uuid: str) -> Mapping[str, TakenOver]:
    """Read which claims of a node another node has taken over; see `Store.evacuated`."""
    rows = connection.execute(_EVACUATED, {"node": node_uuid}).all()
    sound = _sound(connection, [row.other_uuid for row in rows])
    return {
        row.uuid: TakenOver(host=row.host, migration_uuid=row.migration_uuid)
        for row in rows
        if row.other_uuid in sound
    }


def _sound(connection: Connection, uuids: Sequence[str]) -> frozenset[str]:
    """Return those of these claims, of any node, whose row is not damaged."""
    if not uuids:
        return frozenset()
    rows = connection.execute(select(*CLAIMS.checked.selected).where(claims.c.uuid.in_(uuids)))
    read = map(CLAIMS.checked.read, rows)
    return frozenset(row.values["uuid"] for row in read if not row.faults)


def _evacuated() -> Select[Any]:
    """Return the query of the claims of ``:node`` that another node has taken over."""
    mine, other = claims.alias("mine"), claims.alias("other")
    its_move = and_(
        migrations.c.claim_uuid == other.c.uuid,
        migrations.c.node_uuid == other.c.node_uuid,
        migrations.c.role == DEST,
    )
    return (
        select(
            mine.c.uuid,
            other.c.uuid.label("other_uuid"),
            compute_nodes.c.host,
            migrations.c.uuid.label("migration_uuid"),
        )
        .join_from(mine, other, other.c.owner_id == mine.c.owner_id)
        .join(compute_nodes, compute_nodes.c.uuid == other.c.node_uuid)
        .join(migrations, its_move, isouter=True)
        .where(
            mine.c.node_uuid == bindparam("node"),
            mine.c.state.in_((ACTIVE, OUTGOING)),
            mine.c.kind != ATTACH,
            other.c.node_uuid != bindparam("node"),
            other.c.state == ACTIVE,
            other.c.kind == EVACUATION,
            other.c.created_at > mine.c.created_at,
        )
    )


#: Each audit executes it, and SQLAlchemy takes longer to make it than to execute it.
_EVACUATED = _evacuated()


#: The number of rows that one transaction deletes, so that commits are not blocked for long.
PURGED = 1000


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
    chunk = select(*CLAIMS.checked.selected).where(*condition).order_by(claims.c.uuid).limit(PURGED)
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
    chunk = select(table.c[key]).where(*condition).limit(PURGED)
    deleted = 0
    while True:
        with transactions.query() as connection:
            keys = connection.scalars(chunk).all()
        if not keys:
            return deleted
        with transactions.write_repeatable() as connection:
            found = delete(table).where(*condition, table.c[key].in_(keys))
            deleted += connection.execute(found).rowcount
