"""Rows of ``aggregates``: host aggregates with their hosts and their metadata."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Concatenate, ParamSpec

from sqlalchemy import Connection, Engine, delete, insert, select

from rtagent.db.checked_rows import CheckedColumns
from rtagent.db.schema import aggregate_hosts, aggregate_metadata, aggregates, deleted_aggregates
from rtagent.db.transaction import Transactions
from rtagent.errors import StoreDamaged
from rtagent.model.node import Aggregate
from rtagent.scheduler import aggregate_rules as rules

P = ParamSpec("P")
_AGGREGATES = CheckedColumns(aggregates, ("uuid", "name"), None)
_HOSTS = CheckedColumns(aggregate_hosts, ("aggregate_uuid", "host"), None)
_METADATA = CheckedColumns(aggregate_metadata, ("aggregate_uuid", "key", "value"), None)


class AggregateTable:
    """The aggregates of an engine of `open_engine`. Thread-safe.

    An aggregate is named by its uuid or by its name. A change is one transaction that excludes
    other changes of aggregates. All methods raise `StoreUnavailable`. A change whose outcome is
    unknown may be made again.
    """

    def __init__(self, engine: Engine) -> None:
        self._transactions = Transactions(engine)

    def list(self) -> tuple[Aggregate, ...]:
        """Return all aggregates, by name."""
        with self._transactions.snapshot() as connection:
            return _read(connection)

    def create(self, name: str, metadata: Mapping[str, str], uuid: str) -> Aggregate:
        """Create an aggregate without hosts.

        :param uuid: chosen by the caller. The aggregate of this uuid and name is returned if it
            exists: the call was made before.
        :raises AggregateNameExists: InvalidRequest:
        """
        new = Aggregate(uuid=uuid, name=name, metadata=dict(metadata))
        with self._transactions.write_repeatable(serial=True) as connection:
            stored = _read(connection)
            for other in stored:
                if (other.uuid, other.name) == (uuid, name):
                    return other
            rules.check(new, stored)
            _insert(connection, new)
            return new

    def change(
        self,
        aggregate: str,
        rule: Callable[Concatenate[Aggregate, P], Aggregate],
        *arguments: P.args,
        **named: P.kwargs,
    ) -> Aggregate:
        """Change an aggregate by a rule of `aggregate_rules`, with its further arguments.

        :raises AggregateNotFound: AggregateNameExists: ZoneConflict: InvalidRequest: and those of
            the rule.
        """
        with self._transactions.write_repeatable(serial=True) as connection:
            stored = _read(connection)
            before = rules.find(stored, aggregate)
            after = rule(before, *arguments, **named)
            rules.check(after, stored)
            _delete(connection, before.uuid)
            _insert(connection, after)
            return after

    def delete(self, aggregate: str, now: datetime) -> Aggregate:
        """Delete an aggregate that has no hosts. Return it as it was.

        :raises AggregateNotFound: AggregateNotEmpty:
        """
        with self._transactions.write_repeatable(serial=True) as connection:
            old = rules.find(_read(connection), aggregate)
            rules.check_empty(old)
            _delete(connection, old.uuid)
            gone = deleted_aggregates.c.uuid == old.uuid  # it was deleted and created again
            connection.execute(delete(deleted_aggregates).where(gone))
            connection.execute(insert(deleted_aggregates), {"uuid": old.uuid, "at": now})
            return old

    def deleted(self) -> frozenset[str]:
        """Return the uuids of the aggregates that were deleted."""
        with self._transactions.query() as connection:
            return frozenset(connection.scalars(select(deleted_aggregates.c.uuid)))


def _read(connection: Connection) -> tuple[Aggregate, ...]:
    hosts, metadata = dict[str, list[str]](), dict[str, dict[str, str]]()
    for values in _rows(connection, _HOSTS):
        hosts.setdefault(values["aggregate_uuid"], []).append(values["host"])
    for values in _rows(connection, _METADATA):
        metadata.setdefault(values["aggregate_uuid"], {})[values["key"]] = values["value"]
    every = (
        Aggregate(
            uuid=values["uuid"],
            name=values["name"],
            metadata=metadata.get(values["uuid"], {}),
            hosts=tuple(sorted(hosts.get(values["uuid"], ()))),
        )
        for values in _rows(connection, _AGGREGATES)
    )
    return tuple(sorted(every, key=lambda aggregate: aggregate.name))


def _rows(connection: Connection, columns: CheckedColumns) -> Iterable[Mapping[str, Any]]:
    """Read the rows of a table.

    :raises StoreDamaged: a row cannot be read. Guests could get to hosts that they must not have,
        so such a row is not left out.
    """
    rows: Sequence[Sequence[Any]] = connection.execute(select(*columns.selected)).all()
    for row in rows:
        checked = columns.read(row)
        if checked.faults:
            faults = ", ".join(checked.faults)
            raise StoreDamaged(
                f"{columns.table.name} {row[0]}: {faults} cannot be read: restore the last backup,"
                " or delete the row"
            )
        yield checked.values


def _delete(connection: Connection, uuid: str) -> None:
    for table in (aggregate_hosts, aggregate_metadata):
        connection.execute(delete(table).where(table.c.aggregate_uuid == uuid))
    connection.execute(delete(aggregates).where(aggregates.c.uuid == uuid))


def _insert(connection: Connection, aggregate: Aggregate) -> None:
    its = {"aggregate_uuid": aggregate.uuid}
    hosts = [{**its, "host": host} for host in aggregate.hosts]
    metadata = [{**its, "key": k, "value": v} for k, v in sorted(aggregate.metadata.items())]
    connection.execute(insert(aggregates), {"uuid": aggregate.uuid, "name": aggregate.name})
    for table, rows in ((aggregate_hosts, hosts), (aggregate_metadata, metadata)):
        if rows:
            connection.execute(insert(table), rows)
