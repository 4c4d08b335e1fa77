"""Rows of ``retention``: how long the records of each node have been kept."""

from __future__ import annotations

import msgspec
from sqlalchemy import Connection, insert, select, update

from rtagent.db.checked_rows import CheckedColumns
from rtagent.db.schema import retention, to_document
from rtagent.model.retention import Retention

_CHECKED = CheckedColumns(retention, ("node_uuid", "document"))

_decode = msgspec.json.Decoder(Retention).decode


def read_retention(connection: Connection, node_uuid: str) -> Retention:
    """Read the ages of a node's records.

    Without a sound row, counting starts again. Then records are kept for longer, never for a
    shorter time.
    """
    query = select(*_CHECKED.selected).where(retention.c.node_uuid == node_uuid)
    row = connection.execute(query).one_or_none()
    if row is None:
        return Retention()
    checked = _CHECKED.read(row)
    return Retention() if checked.faults else _decode(checked.values["document"])


def write_retention(connection: Connection, node_uuid: str, kept: Retention) -> None:
    """Replace the row of a node."""
    row = _CHECKED.signed({"node_uuid": node_uuid, "document": to_document(kept)})
    same = update(retention).where(retention.c.node_uuid == node_uuid)
    if connection.execute(same.values(row)).rowcount == 0:
        connection.execute(insert(retention), row)
