"""Rows of ``migrations``: each side of each move, as its own agent records it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from sqlalchemy import Connection, Dialect, Select, and_, bindparam, delete, insert, select, update

from rtagent.db.checked_rows import DIGEST, LONG_AGO, CheckedColumns, with_undecodable
from rtagent.db.claim_rows import sound_claims
from rtagent.db.findings import Findings
from rtagent.db.schema import claims, compute_nodes, migrations, to_document
from rtagent.db.transaction import Statement
from rtagent.model.base import Value
from rtagent.model.change import Change
from rtagent.model.claim import ACTIVE, ATTACH, EVACUATION, MIGRATION, MOVE_TYPES, OUTGOING
from rtagent.model.flavor import Flavor
from rtagent.model.migration import DEST, ERROR, SOURCE, Migration, TakenOver
from rtagent.model.node_state import NodeState

_COLUMNS = Migration.__struct_fields__
_FLAVORS = ("old_flavor", "new_flavor")

CHECKED = CheckedColumns(migrations, _COLUMNS)

_decode_flavor = msgspec.json.Decoder(Flavor).decode


class MigrationRows(Value, frozen=True, kw_only=True):
    """The rows that a commit inserts, updates and deletes (uuids)."""

    new: Sequence[Migration] = ()
    changed: Sequence[Migration] = ()
    gone: Sequence[str] = ()


NO_MIGRATION_ROWS = MigrationRows()


def net_migrations(before: NodeState, after: NodeState, changes: Sequence[Change]) -> MigrationRows:
    """Return the rows that differ between the two states."""
    touched = dict.fromkeys(
        uuid
        for change in changes
        for uuid in (*(each.uuid for each in change.migrations), *change.migration_removals)
    )
    if not touched:
        return NO_MIGRATION_ROWS
    left = [after.migrations[uuid] for uuid in touched if uuid in after.migrations]
    return MigrationRows(
        new=tuple(each for each in left if each.uuid not in before.migrations),
        changed=tuple(each for each in left if each.uuid in before.migrations),
        gone=tuple(u for u in touched if u in before.migrations and u not in after.migrations),
    )


class MigrationWriter:
    """Write rows of migrations in an open transaction."""

    def __init__(self, dialect: Dialect) -> None:
        its_row = (
            migrations.c.node_uuid == bindparam("its_node"),
            migrations.c.uuid == bindparam("its_uuid"),
        )
        self._delete = Statement(dialect, delete(migrations).where(*its_row), ())
        columns = (*_COLUMNS, DIGEST)
        self._update = Statement(dialect, update(migrations).where(*its_row), columns)
        self._insert = Statement(dialect, insert(migrations), columns)

    def write(self, connection: Connection, node_uuid: str, rows: MigrationRows) -> None:
        """Write the net change of a commit."""
        self._delete.run(connection, [{"its_node": node_uuid, "its_uuid": u} for u in rows.gone])
        changed = [
            {"its_node": node_uuid, "its_uuid": each.uuid, **_encode(each)} for each in rows.changed
        ]
        self._update.run(connection, changed)
        self._insert.run(connection, list(map(_encode, rows.new)))


def read_migrations(
    connection: Connection, node_uuid: str, has_digests: bool, findings: Findings
) -> tuple[Migration, ...]:
    """Read the migrations of a node. A damaged record is kept as far as it can be read."""
    rows = connection.execute(select(*CHECKED.selected).where(migrations.c.node_uuid == node_uuid))
    found = (_read_row(row, has_digests, findings) for row in rows)
    return tuple(migration for migration in found if migration is not None)


def read_evacuated(connection: Connection, node_uuid: str) -> Mapping[str, TakenOver]:
    """Read which claims of a node another node has taken over; see `Store.evacuated`."""
    rows = connection.execute(_EVACUATED, {"node": node_uuid}).all()
    sound = sound_claims(connection, [row.other_uuid for row in rows])
    return {
        row.uuid: TakenOver(host=row.host, migration_uuid=row.migration_uuid)
        for row in rows
        if row.other_uuid in sound
    }


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


def _encode(migration: Migration) -> dict[str, Any]:
    fields = {name: getattr(migration, name) for name in _COLUMNS}
    flavors = {name: fields[name] for name in _FLAVORS}
    fields |= {k: None if v is None else to_document(v) for k, v in flavors.items()}
    return CHECKED.signed(fields)


def _read_row(row: Sequence[Any], has_digests: bool, findings: Findings) -> Migration | None:
    """Return the record of a row; None if the row does not say which move it is."""
    checked = CHECKED.read(row, has_digests=has_digests)
    fields, faults = dict(checked.values), checked.faults
    for name in _FLAVORS:
        try:
            text = fields[name]
            fields[name] = None if text is None else _decode_flavor(text)
        except (msgspec.MsgspecError, UnicodeError) as error:
            fields[name] = None
            faults = with_undecodable(faults, name, error)
    if not faults:
        return Migration(**fields)
    if fields["uuid"] is None:
        findings.add("migrations", row[0], faults, "it is not known which move it is")
        findings.add_unknown(f"a migration has the unreadable uuid {row[0]!r}")
        return None
    findings.add("migrations", fields["uuid"], faults, "the claims of the move are held")
    return Migration(**fields | _substitutes(fields))


def _substitutes(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return values for the required columns, with substitutes for those that cannot be read. With
    the substitutes, the record is that of a failed move whose guest has not left.
    """
    known = fields["migration_type"] in MOVE_TYPES
    return {
        "node_uuid": fields["node_uuid"] or "",
        "role": fields["role"] if fields["role"] in (SOURCE, DEST) else SOURCE,
        "instance_uuid": fields["instance_uuid"] or "",
        "migration_type": fields["migration_type"] if known else MIGRATION,
        "status": fields["status"] or ERROR,
        "created_at": fields["created_at"] or LONG_AGO,
        "updated_at": fields["updated_at"] or LONG_AGO,
    }
