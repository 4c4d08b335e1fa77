"""Rows of ``allocation_outbox``: consumers whose allocations have to be written to Placement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Dialect, bindparam, delete, insert, select, update

from rtagent.db.checked_rows import DIGEST, LONG_AGO, CheckedColumns
from rtagent.db.findings import Findings
from rtagent.db.schema import allocation_outbox
from rtagent.db.transaction import Statement
from rtagent.model.base import Value
from rtagent.model.change import Change
from rtagent.model.node_state import NodeState
from rtagent.model.outbox import OutboxRow, concerned_consumers

_COLUMNS = OutboxRow.__struct_fields__

CHECKED = CheckedColumns(allocation_outbox, _COLUMNS)


class OutboxRows(Value, frozen=True, kw_only=True):
    """The rows that a commit inserts, updates and deletes (uuids of consumers)."""

    new: Sequence[OutboxRow] = ()
    changed: Sequence[OutboxRow] = ()
    gone: Sequence[str] = ()


NO_OUTBOX_ROWS = OutboxRows()


def net_outbox(before: NodeState, after: NodeState, changes: Sequence[Change]) -> OutboxRows:
    """Return the rows that differ between the two states."""
    had, have = before.outbox, after.outbox
    if had is have:
        return NO_OUTBOX_ROWS
    dropped = had if any(change.policy is not None for change in changes) else ()
    concerned = concerned_consumers(before, after, changes).union(dropped)
    differing = sorted(uuid for uuid in concerned if had.get(uuid) != have.get(uuid))
    return OutboxRows(
        new=tuple(have[uuid] for uuid in differing if uuid not in had),
        changed=tuple(have[uuid] for uuid in differing if uuid in had and uuid in have),
        gone=tuple(uuid for uuid in differing if uuid not in have),
    )


class OutboxWriter:
    """Write rows of the outbox in an open transaction."""

    def __init__(self, dialect: Dialect) -> None:
        its_row = (
            allocation_outbox.c.node_uuid == bindparam("its_node"),
            allocation_outbox.c.consumer_uuid == bindparam("its_consumer"),
        )
        columns = (*_COLUMNS, DIGEST)
        self._delete = Statement(dialect, delete(allocation_outbox).where(*its_row), ())
        self._update = Statement(dialect, update(allocation_outbox).where(*its_row), columns)
        self._insert = Statement(dialect, insert(allocation_outbox), ("node_uuid", *columns))

    def write(self, connection: Connection, node_uuid: str, rows: OutboxRows) -> None:
        """Write the net change of a commit."""
        gone = [{"its_node": node_uuid, "its_consumer": uuid} for uuid in rows.gone]
        changed = [
            {"its_node": node_uuid, "its_consumer": row.consumer_uuid, **_encode(row)}
            for row in rows.changed
        ]
        self._delete.run(connection, gone)
        self._update.run(connection, changed)
        self._insert.run(connection, [{"node_uuid": node_uuid, **_encode(row)} for row in rows.new])


def read_outbox(
    connection: Connection, node_uuid: str, has_digests: bool, findings: Findings
) -> tuple[OutboxRow, ...]:
    """Read the outbox of a node. A damaged row is kept if it says which consumer it is about.

    A row that is lost does no harm for long: the agent compares all allocations at its start.
    """
    query = select(*CHECKED.selected).where(allocation_outbox.c.node_uuid == node_uuid)
    found = (_read_row(row, has_digests, findings) for row in connection.execute(query))
    return tuple(row for row in found if row is not None)


def _read_row(row: Sequence[Any], has_digests: bool, findings: Findings) -> OutboxRow | None:
    checked = CHECKED.read(row, has_digests=has_digests)
    fields = checked.values
    if not checked.faults:
        return OutboxRow(**fields)
    if fields["consumer_uuid"] is None:
        effect = "it is not known which allocations it is about; they are compared at the start"
        findings.add("allocation_outbox", row[0], checked.faults, effect)
        return None
    effect = "the allocations are written"
    findings.add("allocation_outbox", fields["consumer_uuid"], checked.faults, effect)
    return OutboxRow(
        consumer_uuid=fields["consumer_uuid"],
        revision=fields["revision"] or 0,
        request_id=fields["request_id"] or "",
        at=fields["at"] or LONG_AGO,
    )


def _encode(row: OutboxRow) -> dict[str, Any]:
    return CHECKED.signed({name: getattr(row, name) for name in _COLUMNS})
