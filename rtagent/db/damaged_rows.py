"""Damaged rows of a database: list them, and accept what is left of them."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace
from sqlalchemy import Connection, Engine, delete, func, update

from rtagent.db.claim_rows import ClaimRows, ClaimWriter
from rtagent.db.first_digests import TABLES
from rtagent.db.migration_rows import MigrationRows, MigrationWriter
from rtagent.db.nodes import SqlNodes
from rtagent.db.rosters import ROSTERS
from rtagent.db.schema import claim_units, compute_nodes
from rtagent.db.store import SqlStore
from rtagent.db.transaction import Transactions
from rtagent.model.stored import Stored


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
    deleted. An agent that runs is fenced. Each agent computes all digests at its next start.

    :raises StoreDamaged: StoreUnavailable:
    """
    nodes = _nodes(engine)
    names = [c.name for c in compute_nodes.c if c.name.endswith("_digest")]
    removed = dict.fromkeys((*names, *ROSTERS.values()))
    with Transactions(engine).write_repeatable() as connection:
        for stored in nodes:
            _write_held(connection, stored)
        _delete_nameless(connection)
        for checked, _ in TABLES:
            connection.execute(update(checked.table).values(row_digest=None))
        connection.execute(update(compute_nodes).values(epoch=compute_nodes.c.epoch + 1, **removed))


def _nodes(engine: Engine) -> Sequence[Stored]:
    store = SqlStore(engine)
    return [store.load(record.node.uuid) for record in SqlNodes(engine).records()]


def _write_held(connection: Connection, stored: Stored) -> None:
    """Write the damaged claims and the migrations of a node as they were read."""
    held = [replace(claim, suspect=None) for claim in stored.claims if claim.quarantined]
    ClaimWriter(connection.dialect).write(connection, ClaimRows(changed=held))
    moves = MigrationRows(changed=stored.migrations)
    MigrationWriter(connection.dialect).write(connection, stored.node.uuid, moves)


def _delete_nameless(connection: Connection) -> None:
    """Delete the rows whose key is not a text. Only SQLite can have them."""
    if connection.dialect.name != "sqlite":
        return
    keys = (claim_units.c.claim_uuid, *(checked.table.c[key] for checked, key in TABLES))
    for key in keys:
        connection.execute(delete(key.table).where(func.typeof(key) != "text"))
