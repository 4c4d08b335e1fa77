"""Commits: the net effect of a sequence of changes, and its rows in one transaction."""

from collections.abc import Callable, Iterable, Sequence

from sqlalchemy import Connection, Dialect

from rtagent.db.claim_rows import CLAIMS
from rtagent.db.device_rows import DEVICES, DeviceRow, net_devices
from rtagent.db.event_rows import EventRow, EventWriter, net_events
from rtagent.db.keyed_table import KeyedWriter, TableRows, net_rows
from rtagent.db.node_records import roster
from rtagent.db.node_rows import NodeWriter
from rtagent.db.tables import (
    DOMAINS,
    HISTORY,
    MIGRATIONS,
    OPERATIONS,
    OUTBOX,
    OperationRow,
    without_known,
)
from rtagent.db.unit_rows import UnitRows, UnitWriter, net_units
from rtagent.errors import ChangeRejected, RevisionConflict
from rtagent.model.base import Value, made_from
from rtagent.model.change import Change, Event
from rtagent.model.claim import RELEASED, Claim, ClaimEvent, ClaimFacts
from rtagent.model.consumers import OutboxRow, concerned_consumers
from rtagent.model.domain_usage import DomainUsage
from rtagent.model.migration import Migration
from rtagent.model.node_state import NodeState

#: Called with the name of each boundary that a transaction passes: `rtagent.testing.failpoints`.
Passed = Callable[[str], None]


class Batch(Value, frozen=True, kw_only=True):
    """The rows of one commit.

    A claim or a domain usage that changed several times is included once, in its final state: a
    claim that is made and ended in one commit is new, and released. All events are included, in
    order.

    :ivar ended: operation ids to record as ended, unless the store already has a row for them.
    """

    claims: TableRows[Claim]
    units: UnitRows
    devices: TableRows[DeviceRow]
    migrations: TableRows[Migration]
    domains: TableRows[DomainUsage]
    outbox: TableRows[OutboxRow]
    operations: Sequence[OperationRow]
    ended: Sequence[OperationRow]
    events: Sequence[ClaimEvent]
    notifications: EventRow | None = None


def net_batch(before: NodeState, after: NodeState, changes: Sequence[Change]) -> Batch:
    """Return the net effect of the changes that lead from one state to the other.

    :raises ChangeRejected: an operation id is used twice.
    """
    operations, ended = _operations(after, changes)
    claims = {claim.uuid: claim for change in changes for claim in change.puts + change.ends}
    moves = (
        uuid
        for change in changes
        for uuid in (*(each.uuid for each in change.migrations), *change.migration_removals)
    )
    domains = (
        uuid
        for change in changes
        for uuid in (
            *change.domain_usage_removals,
            *(usage.domain_uuid for usage in change.domain_usages),
        )
    )
    return Batch(
        claims=net_rows(before.claims, claims, claims),
        units=net_units(before, after, claims),
        devices=net_devices(before, after, changes),
        migrations=net_rows(before.migrations, after.migrations, moves),
        domains=net_rows(before.domain_usages, after.domain_usages, domains),
        outbox=_outbox(before, after, changes),
        operations=operations,
        ended=ended,
        events=claim_events_of(changes),
        notifications=net_events(before, after, changes),
    )


def _operations(
    after: NodeState, changes: Sequence[Change]
) -> tuple[Sequence[OperationRow], Sequence[OperationRow]]:
    """Return the operations of the changes, and those that are recorded as ended.

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
    return tuple(new.values()), tuple(ended.values())


def _outbox(before: NodeState, after: NodeState, changes: Sequence[Change]) -> TableRows[OutboxRow]:
    had, have = before.outbox, after.outbox
    if had is have:
        return TableRows()
    dropped = had if any(change.policy is not None for change in changes) else ()
    concerned = concerned_consumers(before, after, changes).union(dropped)
    differing = sorted(uuid for uuid in concerned if had.get(uuid) != have.get(uuid))
    return net_rows(had, have, differing)


def claim_events_of(changes: Sequence[Change]) -> tuple[ClaimEvent, ...]:
    """Return the events of these changes, in their order."""
    return tuple(_claim_event(event, change) for change in changes for event in change.events)


def appeared(batch: Batch) -> dict[str, int]:
    """Return, by table, what the rows that a commit adds and removes add to its roster. Of claims,
    only live ones count.
    """
    claims, devices, domains = batch.claims, batch.devices, batch.domains
    rows: dict[str, tuple[Iterable[str], Iterable[str]]] = {
        "claims": (
            [claim.uuid for claim in claims.new if claim.state != RELEASED],
            [claim.uuid for claim in claims.changed if claim.state == RELEASED],
        ),
        "pci_devices": ([row.address for row in devices.new], devices.gone),
        "foreign_domains": ([usage.domain_uuid for usage in domains.new], domains.gone),
        "migrations": ([move.uuid for move in batch.migrations.new], batch.migrations.gone),
    }
    return {table: roster(new) - roster(gone) for table, (new, gone) in rows.items() if new or gone}


def _claim_event(event: Event, change: Change) -> ClaimEvent:
    return made_from(
        ClaimEvent,
        event,
        change,
        claim_uuid=event.after.uuid,
        node_uuid=event.after.node_uuid,
        before=None if event.before is None else made_from(ClaimFacts, event.before),
        after=made_from(ClaimFacts, event.after),
    )


class CommitWriter:
    """Write commits in an open transaction. Its statements are compiled once."""

    def __init__(self, dialect: Dialect, passed: Passed, events_kept: int) -> None:
        self._passed = passed
        self._node = NodeWriter(dialect)
        self._claims = KeyedWriter(dialect, CLAIMS)
        self._units = UnitWriter(dialect)
        self._devices = KeyedWriter(dialect, DEVICES)
        self._migrations = KeyedWriter(dialect, MIGRATIONS)
        self._domains = KeyedWriter(dialect, DOMAINS)
        self._outbox = KeyedWriter(dialect, OUTBOX)
        self._operations = KeyedWriter(dialect, OPERATIONS)
        self._history = KeyedWriter(dialect, HISTORY)
        self._events = EventWriter(dialect, events_kept)

    def update_node(
        self,
        connection: Connection,
        before: NodeState,
        after: NodeState,
        changes: Sequence[Change],
        batch: Batch,
    ) -> None:
        """Update the node's row, which is the lock of the node.

        :raises WriterFenced: the row has a higher epoch than the state before.
        :raises RevisionConflict: the row has another revision, or a lower epoch.
        """
        self._node.update(connection, before, after, changes, appeared(batch))
        self._passed("commit.node")

    def write(self, connection: Connection, node_uuid: str, batch: Batch) -> None:
        """Write all other rows.

        :raises RevisionConflict: a claim of this process is not in the database.
        """
        updated = self._claims.write(connection, node_uuid, batch.claims)
        if updated != len(batch.claims.changed):
            raise RevisionConflict("a claim of this node is not in the database")
        self._migrations.write(connection, node_uuid, batch.migrations)
        self._domains.write(connection, node_uuid, batch.domains)
        self._passed("commit.claims")
        self._outbox.write(connection, node_uuid, batch.outbox)
        self._passed("commit.outbox")
        self._units.write(connection, node_uuid, batch.units)
        self._devices.write(connection, node_uuid, batch.devices)
        self._passed("commit.units")
        ended = without_known(connection, node_uuid, batch.ended)
        self._operations.write(connection, node_uuid, TableRows(new=(*batch.operations, *ended)))
        self._passed("commit.operations")
        self._history.write(connection, node_uuid, TableRows(new=batch.events))
        self._passed("commit.events")
        self._events.write(connection, node_uuid, batch.notifications)
        self._passed("commit.notifications")
