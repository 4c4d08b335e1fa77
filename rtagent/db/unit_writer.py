"""The rows of units, written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import asdict
from sqlalchemy import Connection, Dialect, bindparam, delete, insert

from rtagent.db.schema import claim_units, units
from rtagent.db.statement import Statement
from rtagent.db.units import (
    CLAIM_UNIT_COLUMNS,
    UNIT_COLUMNS,
    UnitRow,
    UnitRows,
    claim_rows,
    unit_rows,
)
from rtagent.model.claim import Claim


class UnitWriter:
    """Writes them in a transaction that is open."""

    def __init__(self, dialect: Dialect) -> None:
        def its(table: Any, *columns: str) -> list[Any]:
            return [table.c[name] == bindparam(name) for name in ("node_uuid", *columns)]

        self._delete_claim_units = Statement(
            dialect, delete(claim_units).where(*its(claim_units, *CLAIM_UNIT_COLUMNS)), ()
        )
        self._delete_units = Statement(dialect, delete(units).where(*its(units, *UNIT_COLUMNS)), ())
        self._insert_units = Statement(dialect, insert(units), ("node_uuid", *UNIT_COLUMNS))
        self._insert_claim_units = Statement(
            dialect, insert(claim_units), ("node_uuid", *CLAIM_UNIT_COLUMNS)
        )

    def write(self, connection: Connection, node_uuid: str, rows: UnitRows) -> None:
        """The net change of a commit; statements without rows are not sent."""
        for statement, its_rows in (
            (self._delete_claim_units, rows.gone_claim_units),
            (self._delete_units, rows.gone_units),
            (self._insert_units, rows.new_units),
            (self._insert_claim_units, rows.new_claim_units),
        ):
            statement.run(connection, _fields(node_uuid, its_rows))

    def rewrite(self, connection: Connection, node_uuid: str, claims: Sequence[Claim]) -> None:
        """Make them anew, from the documents of the node's live claims. Not where these give a unit
        to two owners: what they say cannot be kept, and nothing is granted from it."""
        owned = unit_rows(claims)
        if len({(row.kind, row.unit) for row in owned}) < len(owned):
            return
        for table in (claim_units, units):
            connection.execute(delete(table).where(table.c.node_uuid == node_uuid))
        held = [row for claim in claims for row in claim_rows(claim)]
        self.write(connection, node_uuid, UnitRows(new_units=tuple(owned), new_claim_units=held))


def _fields(node_uuid: str, rows: Sequence[UnitRow]) -> list[Mapping[str, Any]]:
    return [{"node_uuid": node_uuid, **asdict(row)} for row in rows]
