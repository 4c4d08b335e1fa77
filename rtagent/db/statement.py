"""Statements that are sent thousands of times a second."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Dialect
from sqlalchemy.sql.expression import UpdateBase


class Statement:
    """An INSERT, UPDATE or DELETE, compiled once for a dialect.

    SQLAlchemy's own cache saves the compiling, but not the work of finding it there and of
    building a result that nobody reads.
    """

    def __init__(self, dialect: Dialect, clause: UpdateBase, columns: Sequence[str]) -> None:
        """:param columns: those that each row brings a value for."""
        compiled = clause.compile(dialect=dialect, column_keys=list(columns))
        self._sql = str(compiled)
        # The bound parameters' names, in the statement's order where they have no names in it.
        self._by_position = compiled.positional
        self._names: Sequence[str] = getattr(compiled, "positiontup", None) or list(compiled.binds)
        converters = (
            compiled.binds[name].type.dialect_impl(dialect).bind_processor(dialect)
            for name in self._names
        )
        self._converters = [(at, convert) for at, convert in enumerate(converters) if convert]

    def run(self, connection: Connection, rows: Sequence[Mapping[str, Any]]) -> int:
        """Send it with these rows, if there are any; how many rows of the table it matched."""
        if not rows:
            return 0
        parameters: Any = [self._parameters(row) for row in rows]
        return connection.exec_driver_sql(self._sql, parameters).rowcount

    def _parameters(self, row: Mapping[str, Any]) -> Any:
        values = [row[name] for name in self._names]
        for at, convert in self._converters:
            values[at] = convert(values[at])
        return tuple(values) if self._by_position else dict(zip(self._names, values, strict=True))
