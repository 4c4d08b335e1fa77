"""The first digests of a node's rows, after an upgrade from a schema without digests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, bindparam, select, update

from rtagent.db import claim_rows, device_rows, domain_rows, migration_rows, outbox_rows
from rtagent.db.checked_rows import CheckedColumns
from rtagent.db.node_rows import CHECKED_PARTS
from rtagent.db.rosters import ROSTERS, keys_of, roster
from rtagent.db.schema import claims, compute_nodes
from rtagent.db.transaction import Statement
from rtagent.model.claim import RELEASED
from rtagent.model.stored import Stored

#: The columns of each table, and its key within a node.
TABLES: tuple[tuple[CheckedColumns, str], ...] = (
    (claim_rows.CHECKED, "uuid"),
    (device_rows.CHECKED, "address"),
    (domain_rows.CHECKED, "domain_uuid"),
    (migration_rows.CHECKED, "uuid"),
    (outbox_rows.CHECKED, "consumer_uuid"),
)


def add_digests(connection: Connection, stored: Stored) -> None:
    """Give every row of the node the digest of what it has now.

    A row that cannot be read gets none, and is damaged from now on. Released claims need none.
    """
    node_uuid = stored.node.uuid
    its_row = compute_nodes.c.uuid == node_uuid
    fields: dict[str, Any] = {
        ROSTERS[table]: roster(keys) for table, keys in keys_of(stored).items()
    }
    for part in CHECKED_PARTS:
        row = connection.execute(select(*part.selected).where(its_row)).one()
        fields |= _digest_of(part, row)
    connection.execute(update(compute_nodes).where(its_row).values(fields))
    for checked, key in TABLES:
        _add(connection, checked, key, node_uuid)


def _add(connection: Connection, checked: CheckedColumns, key: str, node_uuid: str) -> None:
    table = checked.table
    rows = select(*checked.selected).where(table.c.node_uuid == node_uuid)
    if table is claims:
        rows = rows.where(claims.c.state != RELEASED)
    at = checked.names.index(key)
    signed = [
        {"its_node": node_uuid, "its_key": row[at], **digest}
        for row in connection.execute(rows)
        if (digest := _digest_of(checked, row))
    ]
    its_row = table.c.node_uuid == bindparam("its_node"), table.c[key] == bindparam("its_key")
    statement = Statement(connection.dialect, update(table).where(*its_row), ["row_digest"])
    statement.run(connection, signed)


def _digest_of(checked: CheckedColumns, row: Any) -> Mapping[str, Any]:
    """Return the digest under its column; nothing if the row cannot be read."""
    found = checked.read(row, has_digests=False)
    if found.faults:
        return {}
    return {str(checked.digest_name): checked.digest(found.values)}
