"""Rows of ``services``: services and their heartbeats."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Dialect,
    Engine,
    bindparam,
    insert,
    literal,
    literal_column,
    select,
    update,
)

from rtagent.db.backends import backend
from rtagent.db.checked_rows import CheckedColumns
from rtagent.db.schema import services
from rtagent.db.transaction import Transactions
from rtagent.db.utc_date_time import UtcDateTime
from rtagent.ports import Service

#: The name of the program in ``services.binary``, as in Nova.
BINARY = "rtagentd"
#: Incremented when the RPC API or the data that a service understands changes.
VERSION = 2

_COLUMNS = Service.__struct_fields__
_CHECKED = CheckedColumns(services, _COLUMNS, None)
#: Made once: SQLAlchemy takes as long to make a query as to execute it.
_ALL = select(*_CHECKED.selected).order_by(services.c.host, services.c.binary)
_ONE = select(*_CHECKED.selected).where(
    services.c.host == bindparam("name"), services.c.binary == BINARY
)


class SqlServiceRegistry:
    """A `ServiceRegistry` on an engine of `open_engine`. Thread-safe."""

    def __init__(self, engine: Engine) -> None:
        self._transactions = Transactions(engine)
        self._dialect = engine.dialect

    def heartbeat(self, host: str, now: datetime) -> Service:
        seen = {"last_seen_up": database_now(self._dialect, now), "version": VERSION}
        new = Service(host=host, binary=BINARY, report_count=1)
        return self._write(host, {"report_count": services.c.report_count + 1, **seen}, new, seen)

    def set_disabled(self, host: str, disabled: bool, reason: str | None) -> Service:
        fields: dict[str, Any] = {"disabled": disabled, "disabled_reason": reason}
        new = Service(host=host, binary=BINARY, version=VERSION, **fields)
        return self._write(host, fields, new)

    def set_forced_down(self, host: str, forced_down: bool) -> Service:
        new = Service(host=host, binary=BINARY, version=VERSION, forced_down=forced_down)
        return self._write(host, {"forced_down": forced_down}, new)

    def now(self, now: datetime) -> datetime:
        """Return the time that heartbeats get. :param now: of this host, see `database_now`."""
        with self._transactions.query() as connection:
            return connection.scalars(select(database_now(self._dialect, now))).one()

    def services(self) -> Sequence[Service]:
        with self._transactions.query() as connection:
            return [_service(row) for row in connection.execute(_ALL)]

    def _write(
        self, host: str, fields: dict[str, Any], new: Service, more: Mapping[str, Any] = {}
    ) -> Service:
        """Update the host's record, or insert the new one. Return the record as it is then.

        :param more: columns of the new record that have other values than those in `new`.
        """
        key = services.c.host == host, services.c.binary == BINARY
        with self._transactions.write_repeatable() as connection:
            changed = connection.execute(update(services).where(*key).values(fields))
            if changed.rowcount == 0:
                row = {name: getattr(new, name) for name in _COLUMNS}
                connection.execute(insert(services).values({**row, **more}))
            return _service(connection.execute(_ONE, {"name": host}).one())


def _service(row: Sequence[Any]) -> Service:
    """Return the record of a row. A host is disabled if its record does not show whether it is."""
    checked = _CHECKED.read(row)
    values = dict(checked.values)
    if checked.faults:
        unknown = {"host": "", "binary": "", "report_count": 0, "version": 0, "forced_down": False}
        values |= {name: unknown[name] for name in checked.faults if name in unknown}
        if "disabled" in checked.faults:
            reason = f"its record is damaged: {', '.join(checked.faults)}"
            values |= {"disabled": True, "disabled_reason": reason}
    return Service(**values)


def database_now(dialect: Dialect, now: datetime) -> ColumnElement[datetime]:
    """Return an SQL expression for the time of the database's server: the time of day as all its
    agents see it.

    :param now: of this host, which is also the time of an embedded database.
    """
    expression = backend(dialect.name).now
    if expression is None:
        return literal(now, UtcDateTime())
    return literal_column(expression, UtcDateTime())
