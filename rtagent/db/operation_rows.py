"""Rows of ``operations``: operation ids whose effect is recorded."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Dialect, insert, select

from rtagent.db.checked_rows import DIGEST, CheckedColumns
from rtagent.db.schema import operations
from rtagent.db.transaction import Statement
from rtagent.errors import ChangeRejected, StoreDamaged
from rtagent.model.base import Value
from rtagent.model.change import Change, Operation
from rtagent.model.node_state import NodeState

_FIELDS = Operation.__struct_fields__
_WHEN = ("at", "revision")

_CHECKED = CheckedColumns(operations, (*_FIELDS, *_WHEN))


class OperationRow(Value, frozen=True, kw_only=True):
    """An operation, the time of its effect, and the revision of the node after its commit."""

    operation: Operation
    at: datetime
    revision: int


class OperationRows(Value, frozen=True, kw_only=True):
    """The rows that a commit inserts.

    :ivar new: operations of the changes.
    :ivar ended: ids to record as ended, unless the store already has a row for them.
    """

    new: Sequence[OperationRow] = ()
    ended: Sequence[OperationRow] = ()


def net_operations(after: NodeState, changes: Sequence[Change]) -> OperationRows:
    """Return the rows of the operations of a commit.

    :raises ChangeRejected: an operation id is used twice.
    """
    new: dict[str, OperationRow] = {}
    ended: dict[str, OperationRow] = {}
    for change in changes:
        for operation in change.operations:
            name = operation.operation_id
            row = OperationRow(operation=operation, at=change.at, revision=after.revision)
            if operation.ended:
                if name not in new:
                    ended.setdefault(name, row)
            elif name in new or name in ended:
                raise ChangeRejected(f"operation id {name} is used twice in one commit")
            else:
                new[name] = row
    return OperationRows(new=tuple(new.values()), ended=tuple(ended.values()))


class OperationWriter:
    """Write rows of operations in an open transaction."""

    def __init__(self, dialect: Dialect) -> None:
        columns = ("node_uuid", *_FIELDS, *_WHEN, DIGEST)
        self._insert = Statement(dialect, insert(operations), columns)

    def write(self, connection: Connection, node_uuid: str, rows: OperationRows) -> None:
        """Write the rows of a commit."""
        new = [*rows.new, *_without_known(connection, node_uuid, rows.ended)]
        self._insert.run(connection, [{"node_uuid": node_uuid, **_encode(row)} for row in new])


def read_operation(connection: Connection, node_uuid: str, operation_id: str) -> Operation | None:
    """Read the record of an operation id.

    :raises StoreDamaged: the row is damaged.
    """
    query = select(*_CHECKED.selected).where(
        operations.c.node_uuid == node_uuid, operations.c.operation_id == operation_id
    )
    row = connection.execute(query).one_or_none()
    if row is None:
        return None
    # Without a digest: of an older release.
    checked = _CHECKED.read(row, has_digests=row[-1] is not None)
    if checked.faults:
        raise StoreDamaged(
            f"operations {operation_id}: {', '.join(checked.faults)} damaged: it is not known"
            " whether the call had an effect. Read the claims of its instance, and use another"
            " operation id"
        )
    return Operation(**{name: checked.values[name] for name in _FIELDS})


def _without_known(
    connection: Connection, node_uuid: str, rows: Sequence[OperationRow]
) -> list[OperationRow]:
    """Return the rows whose operation id is not in the database."""
    if not rows:
        return []
    ids = [row.operation.operation_id for row in rows]
    query = select(operations.c.operation_id).where(
        operations.c.node_uuid == node_uuid, operations.c.operation_id.in_(ids)
    )
    known = set(connection.scalars(query))
    return [row for row in rows if row.operation.operation_id not in known]


def _encode(row: OperationRow) -> dict[str, Any]:
    fields = {name: getattr(row.operation, name) for name in _FIELDS}
    fields |= {name: getattr(row, name) for name in _WHEN}
    fields[DIGEST] = _CHECKED.digest(fields)
    return fields
