"""KeyedTable: a table with one row for each record of a node, found by the key of the record.

Each row has a digest (`checked_rows`). A damaged row is reported by table, key and column; its
table says what stands in its place.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

import msgspec
from sqlalchemy import Connection, Dialect, Table, bindparam, delete, insert, select, update

from rtagent.db.checked_rows import DIGEST, CheckedColumns, CheckedRow, with_undecodable
from rtagent.db.schema import to_document
from rtagent.db.transaction import Statement
from rtagent.model.base import Value

T = TypeVar("T", bound=msgspec.Struct)

Fields = dict[str, Any]


class Findings:
    """Collects the damaged rows of one read.

    :ivar damage: a sentence for each damaged row: table, key and columns.
    :ivar unknown: reasons why it is not known what is held. Nothing must be granted.
    """

    def __init__(self) -> None:
        self.damage: list[str] = []
        self.unknown: list[str] = []

    def add(self, table: str, key: object, faults: Sequence[str], effect: str) -> None:
        """Add a damaged row.

        :param faults: its columns, or the digest that it does not have.
        :param effect: what is done about it.
        """
        self.damage.append(f"{table} {key}: damaged ({', '.join(faults)}): {effect}")


class TableRows(Value, Generic[T], frozen=True, kw_only=True):
    """The rows that a commit inserts, updates and deletes (keys)."""

    new: Sequence[T] = ()
    changed: Sequence[T] = ()
    gone: Sequence[str] = ()


def net_rows(
    before: Mapping[str, Any], after: Mapping[str, T], touched: Iterable[str]
) -> TableRows[T]:
    """Return the rows of the touched keys that lead from one mapping to the other."""
    keys = tuple(dict.fromkeys(touched))
    return TableRows(
        new=tuple(after[key] for key in keys if key in after and key not in before),
        changed=tuple(after[key] for key in keys if key in after and key in before),
        gone=tuple(key for key in keys if key in before and key not in after),
    )


class KeyedTable(Generic[T]):
    """The configuration of a table.

    :ivar key: the column of the key within a node. :ivar checked: the columns that are read.
    """

    def __init__(
        self,
        table: Table,
        record: type[T],
        key: str,
        *,
        subject: str = "",
        effect: str = "",
        substitute: Callable[[CheckedRow], T] | None = None,
        documents: Mapping[str, Any] = {},
        encode: Callable[[T], Fields] | None = None,
        columns: Sequence[str] = (),
        checked: Sequence[str] = (),
        digest: str | None = DIGEST,
        of_node: bool = True,
        dispensable: bool = False,
    ) -> None:
        """:param subject: what a row is about. :param effect: what is done about a damaged row.
        :param substitute: returns the record of a damaged row whose key can be read.
        :param documents: the columns with JSON, and the type of each.
        :param encode: returns the columns of a record; None: they are its fields.
        :param columns: those of `encode`. :param checked: those that are read, if they are fewer.
        :param of_node: False: the key is unique in the whole table.
        :param dispensable: nothing is held by a row that is lost.
        """
        self.table, self.key, self.subject, self._effect = table, key, subject, effect
        self.columns = tuple(columns or record.__struct_fields__)
        self.checked = CheckedColumns(table, checked or self.columns, digest)
        self.of_node, self._dispensable = of_node, dispensable
        self._record, self._substitute, self._fields = record, substitute, encode
        self._documents = {name: msgspec.json.Decoder(kind) for name, kind in documents.items()}

    def encode(self, record: T) -> Fields:
        """Return the columns of a record, with their digest."""
        if self._fields is not None:
            fields = self._fields(record)
        else:
            fields = {name: getattr(record, name) for name in self.columns}
            for name in self._documents:
                if fields[name] is not None:
                    fields[name] = to_document(fields[name])
        return self.checked.signed(fields)

    def decode(self, raw: Sequence[Any]) -> CheckedRow:
        """Check a row, and decode its documents. What cannot be decoded is None."""
        row = self.checked.read(raw)
        if not self._documents:
            return row
        values, faults = dict(row.values), row.faults
        for name, decoder in self._documents.items():
            try:
                values[name] = None if values[name] is None else decoder.decode(values[name])
            except (msgspec.MsgspecError, UnicodeError) as error:
                values[name] = None
                faults = with_undecodable(faults, name, error)
        return CheckedRow(values=values, faults=faults)

    def read(self, connection: Connection, node_uuid: str, findings: Findings) -> tuple[T, ...]:
        """Read the records of a node, with substitutes for damaged rows."""
        query = select(*self.checked.selected).where(self.table.c.node_uuid == node_uuid)
        return tuple(self._records(connection.execute(query), findings))

    def _records(self, rows: Iterable[Sequence[Any]], findings: Findings) -> Iterator[T]:
        for raw in rows:
            row = self.decode(raw)
            if not row.faults:
                yield self._record(**row.values)
            elif row.values[self.key] is None:
                self.add_nameless(raw[0], row.faults, findings)
            else:
                findings.add(self.table.name, row.values[self.key], row.faults, self._effect)
                assert self._substitute is not None
                yield self._substitute(row)

    def add_nameless(self, key: object, faults: Sequence[str], findings: Findings) -> None:
        """Add a row that does not say which record it is."""
        effect = f"it is not known which {self.subject} it is"
        findings.add(self.table.name, key, faults, effect)
        if not self._dispensable:
            findings.unknown.append(f"a {self.subject} has the unreadable {self.key} {key!r}")


class KeyedWriter(Generic[T]):
    """Writes rows of a table in an open transaction. Its statements are compiled once."""

    def __init__(self, dialect: Dialect, table: KeyedTable[T]) -> None:
        self._table = table
        columns = table.table.c
        its_row = [columns[table.key] == bindparam("its_key")]
        if table.of_node:
            its_row.append(columns.node_uuid == bindparam("its_node"))
        digest = table.checked.digest_name
        written = (*table.columns, *([digest] if digest else []))
        inserted = dict.fromkeys(("node_uuid", *written))
        self._delete = Statement(dialect, delete(table.table).where(*its_row), ())
        self._update = Statement(dialect, update(table.table).where(*its_row), written)
        # Inline: keys that the database generates are not needed.
        self._insert = Statement(dialect, insert(table.table).inline(), tuple(inserted))

    def write(self, connection: Connection, node_uuid: str, rows: TableRows[T]) -> int:
        """Write the net change of a commit. Return how many rows were updated."""
        if not (rows.new or rows.changed or rows.gone):
            return 0
        encode, key = self._table.encode, self._table.key
        gone = [{"its_node": node_uuid, "its_key": name} for name in rows.gone]
        changed = [
            {"its_node": node_uuid, "its_key": getattr(record, key), **encode(record)}
            for record in rows.changed
        ]
        self._delete.run(connection, gone)
        updated = self._update.run(connection, changed)
        self._insert.run(
            connection, [{"node_uuid": node_uuid, **encode(record)} for record in rows.new]
        )
        return updated
