"""Documents of a node that have a table of their own: its drain, and the ages of its records."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import msgspec
from sqlalchemy import Connection, Table, delete, insert, select, type_coerce, update
from sqlalchemy.types import NullType

from rtagent.db.checked_rows import LONG_AGO, CheckedColumns, with_undecodable
from rtagent.db.keyed_table import Findings
from rtagent.db.schema import compute_nodes, drains, retention, to_document
from rtagent.model.node import Drain
from rtagent.model.node_state import NodeState
from rtagent.model.retention import Retention

T = TypeVar("T")


#: What a damaged row says, or a missing one. Nothing is known but that the node drains.
_DAMAGED = Drain(since=LONG_AGO, reason="its record is damaged")
_LOST = Drain(since=LONG_AGO, reason="its record is lost")

_EFFECT = "the node drains until rtagent node undrain"


class _Documents(Generic[T]):
    """A table with one document for each node."""

    def __init__(self, table: Table, kind: type[T]) -> None:
        self._table, self._decoder = table, msgspec.json.Decoder(kind)
        self._checked = CheckedColumns(table, ("node_uuid", "document"))

    def read(self, connection: Connection, node_uuid: str) -> tuple[T | None, tuple[str, ...]]:
        """Return the document of a node, and the faults of its row. Both are empty without one."""
        query = select(*self._checked.selected).where(self._table.c.node_uuid == node_uuid)
        raw = connection.execute(query).one_or_none()
        if raw is None:
            return None, ()
        row = self._checked.read(raw)
        if row.faults:
            return None, row.faults
        try:
            return self._decoder.decode(row.values["document"]), ()
        except msgspec.MsgspecError as error:
            return None, with_undecodable((), "document", error)

    def write(self, connection: Connection, node_uuid: str, document: T | None) -> None:
        """Replace the row of a node; None: delete it."""
        connection.execute(delete(self._table).where(self._table.c.node_uuid == node_uuid))
        if document is not None:
            row: dict[str, Any] = {"node_uuid": node_uuid, "document": to_document(document)}
            connection.execute(insert(self._table), self._checked.signed(row))


_DRAINS = _Documents(drains, Drain)
_RETENTION = _Documents(retention, Retention)


def read_drain(connection: Connection, node_uuid: str, findings: Findings) -> Drain | None:
    """Read the drain of a node; None: it does not drain. With a damaged or a lost row, it does."""
    drain, faults = _DRAINS.read(connection, node_uuid)
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
    _DRAINS.write(connection, node_uuid, after.drain)
    its_row = update(compute_nodes).where(compute_nodes.c.uuid == node_uuid)
    connection.execute(its_row.values(draining=after.drain is not None))


def read_retention(connection: Connection, node_uuid: str) -> Retention:
    """Read the ages of a node's records.

    Without a sound row, counting starts again. Then records are kept for longer, never for a
    shorter time.
    """
    kept, _ = _RETENTION.read(connection, node_uuid)
    return kept or Retention()


def write_retention(connection: Connection, node_uuid: str, kept: Retention) -> None:
    """Replace the ages of a node's records."""
    _RETENTION.write(connection, node_uuid, kept)
