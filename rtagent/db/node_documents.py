"""Documents of a node that have a table of their own: its drain, and the ages of its records."""

from typing import Any

from sqlalchemy import Connection, delete, insert, select, type_coerce, update
from sqlalchemy.types import NullType

from rtagent.db.checked_rows import LONG_AGO
from rtagent.db.keyed_table import Findings, KeyedTable
from rtagent.db.schema import compute_nodes, drains, retention
from rtagent.model.base import Value
from rtagent.model.node import Drain
from rtagent.model.node_state import NodeState
from rtagent.model.retention import Retention

#: What a damaged row says, or a missing one. Nothing is known but that the node drains.
_DAMAGED = Drain(since=LONG_AGO, reason="its record is damaged")
_LOST = Drain(since=LONG_AGO, reason="its record is lost")

_EFFECT = "the node drains until rtagent node undrain"


class _NodeDocument(Value, frozen=True, kw_only=True):
    node_uuid: str
    document: Drain | Retention


_DRAINS = KeyedTable(drains, _NodeDocument, "node_uuid", documents={"document": Drain})
_RETENTION = KeyedTable(retention, _NodeDocument, "node_uuid", documents={"document": Retention})


def _read(
    keyed: KeyedTable[_NodeDocument], connection: Connection, node_uuid: str
) -> tuple[Any, tuple[str, ...]]:
    """Return the document of a node, and the faults of its row. Both are empty without one."""
    query = select(*keyed.checked.selected).where(keyed.table.c.node_uuid == node_uuid)
    raw = connection.execute(query).one_or_none()
    if raw is None:
        return None, ()
    row = keyed.decode(raw)
    return None if row.faults else row.values["document"], row.faults


def _write(
    keyed: KeyedTable[_NodeDocument],
    connection: Connection,
    node_uuid: str,
    document: Drain | Retention | None,
) -> None:
    """Replace the row of a node; None: delete it."""
    connection.execute(delete(keyed.table).where(keyed.table.c.node_uuid == node_uuid))
    if document is not None:
        row = _NodeDocument(node_uuid=node_uuid, document=document)
        connection.execute(insert(keyed.table), keyed.encode(row))


def read_drain(connection: Connection, node_uuid: str, findings: Findings) -> Drain | None:
    """Read the drain of a node; None: it does not drain. With a damaged or a lost row, it does."""
    drain: Drain | None
    drain, faults = _read(_DRAINS, connection, node_uuid)
    if faults:
        findings.add("drains", node_uuid, faults, _EFFECT)
        return _DAMAGED
    if drain is None and _should_drain(connection, node_uuid):
        findings.add("drains", node_uuid, ("the row is missing",), _EFFECT)
        return _LOST
    return drain


def _should_drain(connection: Connection, node_uuid: str) -> bool:
    """Return whether the node's own row says that it drains, or cannot be read."""
    flag = type_coerce(compute_nodes.c.draining, NullType())
    found = connection.scalar(select(flag).where(compute_nodes.c.uuid == node_uuid))
    return found is not None and found != 0


def write_drain(connection: Connection, before: NodeState, after: NodeState) -> None:
    """Replace the drain of a node, if it has changed."""
    if before.drain == after.drain:
        return
    node_uuid = after.node.uuid
    _write(_DRAINS, connection, node_uuid, after.drain)
    its_row = update(compute_nodes).where(compute_nodes.c.uuid == node_uuid)
    connection.execute(its_row.values(draining=after.drain is not None))


def read_retention(connection: Connection, node_uuid: str) -> Retention:
    """Read the ages of a node's records.

    Without a sound row, counting starts again. Then records are kept for longer, never for a
    shorter time.
    """
    kept, _ = _read(_RETENTION, connection, node_uuid)
    return kept or Retention()


def write_retention(connection: Connection, node_uuid: str, kept: Retention) -> None:
    """Replace the ages of a node's records."""
    _write(_RETENTION, connection, node_uuid, kept)
