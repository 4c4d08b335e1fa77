"""Statements that are sent thousands of times a second."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Dialect
from sqlalchemy.sql.expression import UpdateBase

_Convert = Callable[[Any], Any]


class Statement:
    """An INSERT, UPDATE or DELETE, compiled once for a dialect.

    SQLAlchemy's own cache saves the compiling, but not the work of finding it there and of
    building a result that nobody reads.
    """

    def __init__(self, dialect: Dialect, clause: UpdateBase, columns: Sequence[str]) -> None:
        """:param columns: those that each row brings a value for."""
        compiled = clause.compile(dialect=dialect, column_keys=list(columns))
        self._sql = str(compiled)
        self._names: Sequence[str] = getattr(compiled, "positiontup", None) or ()
        self._converters = {
            name: convert
            for name, bind in compiled.binds.items()
            if (convert := bind.type.dialect_impl(dialect).bind_processor(dialect)) is not None
        }

    def run(self, connection: Connection, rows: Sequence[Mapping[str, Any]]) -> int:
        """Send it with these rows, if there are any; how many rows of the table it matched."""
        if not rows:
            return 0
        parameters: Any = [self._parameters(row) for row in rows]
        return connection.exec_driver_sql(self._sql, parameters).rowcount

    def _parameters(self, row: Mapping[str, Any]) -> Any:
        values = dict(row)
        for name, convert in self._converters.items():
            values[name] = convert(values[name])
        return tuple([values[name] for name in self._names]) if self._names else values
