"""Rows with a digest, by which damage to a row is noticed.

A digest is computed from the values of the columns that the agent reads back. It detects random
damage; it is no protection against an attacker. Each value is checked by itself, so a damaged row
is an error of that row alone. A row without a digest is damaged.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import blake2b
from operator import itemgetter
from typing import Any

import msgspec
from sqlalchemy import Boolean, Column, Double, Integer, Table, type_coerce
from sqlalchemy.sql.expression import ColumnElement
from sqlalchemy.types import NullType, TypeEngine

from rtagent.db.utc_date_time import UtcDateTime
from rtagent.model.base import Value

# Fast and unambiguous. The same values always have the same text.
_encode = msgspec.json.Encoder().encode

#: The column of a table for the digest of each row.
DIGEST = "row_digest"
#: The name of a fault: each column can be read, but together they do not have the digest.
MISMATCH = "digest"

#: The largest quantity that is accepted from a damaged row.
_CREDIBLE = 2**48

#: In place of a time that cannot be read.
LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)

_DIGEST_BYTES = 7


class CheckedRow(Value, frozen=True, kw_only=True):
    """The values of a row.

    :ivar values: by column. A value that cannot be read is None.
    :ivar faults: the columns that cannot be read, or `MISMATCH`. Empty: the row is sound.
    """

    values: Mapping[str, Any]
    faults: tuple[str, ...] = ()


def credible(quantity: int | None) -> int:
    """Return a quantity of a damaged row; 0 for one that nothing can have."""
    return quantity if quantity is not None and 0 <= quantity <= _CREDIBLE else 0


def with_undecodable(faults: Iterable[str], name: str, error: Exception) -> tuple[str, ...]:
    """Return the faults of a row with a document that cannot be decoded, instead of `MISMATCH`."""
    others = [fault for fault in faults if fault not in (MISMATCH, name)]
    return (*others, f"{name} ({error})")


class CheckedColumns:
    """Columns of a table that share a digest."""

    def __init__(self, table: Table, names: Sequence[str], digest: str | None = DIGEST) -> None:
        """:param names: in the order in which their values enter the digest.
        :param digest: the column of the digest; None: there is none, and only types are checked.
        """
        columns = [table.c[name] for name in names]
        stored = [] if digest is None else [table.c[digest]]
        self._get = _values_of(names)
        self.table, self.names, self.digest_name = table, tuple(names), digest
        #: What to select. The values are the driver's own: SQLAlchemy's conversions would end the
        #: whole query at one bad value.
        self.selected: list[ColumnElement[Any]] = [
            type_coerce(column, NullType()).label(column.name) for column in (*columns, *stored)
        ]
        self._readers = [
            (column.name, _reader(column), bool(column.nullable)) for column in columns
        ]

    def digest(self, values: Mapping[str, Any]) -> int:
        """Return the digest of a row's values. Their times are in UTC."""
        return number_of(_encode(self._get(values)), _DIGEST_BYTES)

    def signed(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values with their digest, if the table has one."""
        if self.digest_name is None:
            return {**values}
        return {**values, self.digest_name: self.digest(values)}

    def read(self, row: Sequence[Any]) -> CheckedRow:
        """Check a row of `selected`."""
        values, faults = {}, []
        for (name, read, nullable), raw in zip(self._readers, row, strict=False):
            value = None
            if raw is not None or not nullable:
                try:
                    value = read(raw)
                except (TypeError, ValueError, OverflowError):
                    faults.append(name)
            values[name] = value
        signed = self.digest_name is not None
        if signed and not faults and row[len(self._readers)] != self.digest(values):
            faults.append(MISMATCH)
        return CheckedRow(values=values, faults=tuple(faults))


def _values_of(names: Sequence[str]) -> Callable[[Mapping[str, Any]], tuple[Any, ...]]:
    if len(names) == 1:
        return lambda values: (values[names[0]],)
    return itemgetter(*names)


def number_of(data: bytes, size: int) -> int:
    """Return the digest of some bytes: a number of `size` bytes."""
    return int.from_bytes(blake2b(data, digest_size=size).digest())


def _reader(column: Column[Any]) -> Callable[[Any], Any]:
    kind: TypeEngine[Any] = column.type
    if isinstance(kind, UtcDateTime):
        return _moment
    if isinstance(kind, Boolean):
        return _boolean
    if isinstance(kind, Double):
        return _float
    return _integer if isinstance(kind, Integer) else _text


def _text(raw: Any) -> str:
    if type(raw) is not str:
        raise TypeError
    return raw


def _integer(raw: Any) -> int:
    if type(raw) is not int:
        raise TypeError
    return raw


def _float(raw: Any) -> float:
    if type(raw) not in (int, float):
        raise TypeError
    return float(raw)


def _boolean(raw: Any) -> bool:
    if raw not in (0, 1):
        raise ValueError
    return bool(raw)


def _moment(raw: Any) -> datetime:
    """Drivers return a datetime; SQLite's returns its text."""
    value = raw if isinstance(raw, datetime) else datetime.fromisoformat(raw)
    if value.tzinfo is not None:
        raise ValueError
    return value.replace(tzinfo=UTC)
