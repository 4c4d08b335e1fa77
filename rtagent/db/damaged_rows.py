"""Damaged rows of a database: list them, and accept what is left of them."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace
from sqlalchemy import Connection, Engine, bindparam, delete, func, select, update

from rtagent.db.checked_rows import MISMATCH, CheckedColumns
from rtagent.db.claim_rows import CLAIMS
from rtagent.db.device_rows import DEVICES
from rtagent.db.keyed_table import KeyedTable, KeyedWriter, TableRows
from rtagent.db.node_records import CHECKED_PARTS, ROSTERS, SqlNodes, keys_of, roster
from rtagent.db.schema import claim_units, compute_nodes
from rtagent.db.store import SqlStore
from rtagent.db.tables import DOMAINS, MIGRATIONS, OUTBOX
from rtagent.db.transaction import Statement, Transactions
from rtagent.errors import StoreUnavailable
from rtagent.model.stored import Stored

#: Tables whose rows may be damaged and accepted.
TABLES: tuple[KeyedTable[Any], ...] = (CLAIMS, DEVICES, DOMAINS, MIGRATIONS, OUTBOX)


def damage(engine: Engine) -> Sequence[str]:
    """Return a sentence for each damaged row, and for each reason why it is not known what is held,
    of all nodes.

    :raises StoreDamaged: the row of a node cannot be read.
    :raises StoreUnavailable:
    """
    return [each for stored in _nodes(engine) for each in (*stored.damage, *stored.unknown)]


def accept(engine: Engine) -> None:
    """Accept the rows of all nodes as they are now.

    Damaged claims and migrations are written as they were read. Rows whose key is damaged are
    deleted. Every row gets the digest of what it has now; one that cannot be read stays damaged.
    An agent that runs is fenced.

    :raises StoreDamaged:
    :raises StoreUnavailable: also if an agent writes at the same time.
    """
    nodes = _nodes(engine)
    with Transactions(engine).write_repeatable() as connection:
        for stored in nodes:
            _fence(connection, stored)
            _write_held(connection, stored)
        _delete_nameless(connection)
        for stored in nodes:
            _sign(connection, stored)


def _nodes(engine: Engine) -> Sequence[Stored]:
    store = SqlStore(engine)
    return [store.load(record.node.uuid) for record in SqlNodes(engine).records()]


def _fence(connection: Connection, stored: Stored) -> None:
    """Raise the epoch of a node, if its rows are still those that were read."""
    node = compute_nodes.c
    same = node.epoch == stored.epoch, node.revision == stored.revision
    raised = update(compute_nodes).where(node.uuid == stored.node.uuid, *same)
    if connection.execute(raised.values(epoch=node.epoch + 1)).rowcount != 1:
        raise StoreUnavailable(
            f"the agent of node {stored.node.uuid} has written meanwhile: stop it, and repeat this"
        )


def _write_held(connection: Connection, stored: Stored) -> None:
    """Write the damaged claims and the migrations of a node as they were read."""
    node_uuid, dialect = stored.node.uuid, connection.dialect
    held = [replace(claim, suspect=None) for claim in stored.claims if claim.quarantined]
    KeyedWriter(dialect, CLAIMS).write(connection, node_uuid, TableRows(changed=held))
    moves = TableRows(changed=stored.migrations)
    KeyedWriter(dialect, MIGRATIONS).write(connection, node_uuid, moves)


def _delete_nameless(connection: Connection) -> None:
    """Delete the rows whose key is not a text. Only SQLite can have them."""
    if connection.dialect.name != "sqlite":
        return
    keys = (claim_units.c.claim_uuid, *(keyed.table.c[keyed.key] for keyed in TABLES))
    for key in keys:
        connection.execute(delete(key.table).where(func.typeof(key) != "text"))


def _sign(connection: Connection, stored: Stored) -> None:
    """Give every row of the node the digest of what it has now."""
    node_uuid = stored.node.uuid
    its_row = compute_nodes.c.uuid == node_uuid
    fields: dict[str, Any] = {
        ROSTERS[table]: roster(keys) for table, keys in keys_of(stored).items()
    }
    for part in CHECKED_PARTS:
        row = connection.execute(select(*part.selected).where(its_row)).one()
        fields |= _digest_of(part, row)
    connection.execute(update(compute_nodes).where(its_row).values(fields))
    for table in TABLES:
        _add(connection, table, node_uuid)


def _add(connection: Connection, keyed: KeyedTable[Any], node_uuid: str) -> None:
    table, checked = keyed.table, keyed.checked
    rows = select(*checked.selected).where(table.c.node_uuid == node_uuid)
    at = checked.names.index(keyed.key)
    signed = [
        {"its_node": node_uuid, "its_key": row[at], **digest}
        for row in connection.execute(rows)
        if (digest := _digest_of(checked, row))
    ]
    its_row = table.c.node_uuid == bindparam("its_node"), table.c[keyed.key] == bindparam("its_key")
    statement = Statement(connection.dialect, update(table).where(*its_row), ["row_digest"])
    statement.run(connection, signed)


def _digest_of(checked: CheckedColumns, row: Any) -> Mapping[str, Any]:
    """Return the digest under its column; nothing if a column cannot be read."""
    found = checked.read(row)
    if found.faults not in ((), (MISMATCH,)):
        return {}
    return {str(checked.digest_name): checked.digest(found.values)}
