"""Rows of ``drains``: the nodes that drain."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
from sqlalchemy import Connection, delete, insert, select, type_coerce, update
from sqlalchemy.types import NullType

from rtagent.db.checked_rows import CheckedColumns, with_undecodable
from rtagent.db.findings import Findings
from rtagent.db.schema import compute_nodes, drains, to_document
from rtagent.model.drain import Drain
from rtagent.model.node_state import NodeState

_CHECKED = CheckedColumns(drains, ("node_uuid", "document"))

_decode = msgspec.json.Decoder(Drain).decode

_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
#: What a damaged row says, or a missing one. Nothing is known but that the node drains.
_DAMAGED = Drain(since=_LONG_AGO, reason="its record is damaged")
_LOST = Drain(since=_LONG_AGO, reason="its record is lost")

_EFFECT = "the node drains until rtagent node undrain"


def read_drain(connection: Connection, node_uuid: str, findings: Findings) -> Drain | None:
    """Read the drain of a node; None: it does not drain. With a damaged or a lost row, it does."""
    query = select(*_CHECKED.selected).where(drains.c.node_uuid == node_uuid)
    row = connection.execute(query).one_or_none()
    if row is None:
        if not _should_drain(connection, node_uuid):
            return None
        findings.add("drains", node_uuid, ("the row is missing",), _EFFECT)
        return _LOST
    checked = _CHECKED.read(row)
    faults = checked.faults
    if not faults:
        try:
            return _decode(checked.values["document"])
        except msgspec.MsgspecError as error:
            faults = with_undecodable(faults, "document", error)
    findings.add("drains", node_uuid, faults, _EFFECT)
    return _DAMAGED


def _should_drain(connection: Connection, node_uuid: str) -> bool:
    """Return whether the node's own row says that it drains, or cannot be read."""
    flag = type_coerce(compute_nodes.c.draining, NullType())
    found = connection.scalar(select(flag).where(compute_nodes.c.uuid == node_uuid))
    return found is not None and found != 0


def write_drain(connection: Connection, before: NodeState, after: NodeState) -> None:
    """Replace the row of a node, if its drain has changed."""
    if before.drain == after.drain:
        return
    node_uuid = after.node.uuid
    connection.execute(delete(drains).where(drains.c.node_uuid == node_uuid))
    its_row = update(compute_nodes).where(compute_nodes.c.uuid == node_uuid)
    connection.execute(its_row.values(draining=after.drain is not None))
    if after.drain is not None:
        row = {"node_uuid": node_uuid, "document": to_document(after.drain)}
        connection.execute(insert(drains), _CHECKED.signed(row))
