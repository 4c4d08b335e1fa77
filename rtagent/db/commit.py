"""Commits: the net effect of a sequence of changes, and its rows in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from sqlalchemy import Connection, Dialect

from rtagent.db.claim_rows import ClaimRows, ClaimWriter, net_claims
from rtagent.db.device_rows import DeviceRows, DeviceWriter, net_devices
from rtagent.db.domain_rows import DomainRows, DomainWriter, net_domains
from rtagent.db.event_rows import EventRow, EventWriter, net_events
from rtagent.db.history import HistoryWriter, claim_events_of
from rtagent.db.migration_rows import MigrationRows, MigrationWriter, net_migrations
from rtagent.db.node_rows import NodeWriter
from rtagent.db.operation_rows import OperationRows, OperationWriter, net_operations
from rtagent.db.outbox_rows import OutboxRows, OutboxWriter, net_outbox
from rtagent.db.rosters import roster
from rtagent.db.unit_rows import UnitRows, UnitWriter, net_units
from rtagent.model.base import Value
from rtagent.model.change import Change
from rtagent.model.claim import RELEASED
from rtagent.model.claim_event import ClaimEvent
from rtagent.model.node_state import NodeState

#: Called with the name of each boundary that a transaction passes, see `failpoints`.
Passed = Callable[[str], None]


class Batch(Value, frozen=True, kw_only=True):
    """The rows of one commit.

    A claim or a domain usage that changed several times is included once, in its final state. All
    events are included, in order.
    """

    claims: ClaimRows
    units: UnitRows
    devices: DeviceRows
    migrations: MigrationRows
    domains: DomainRows
    outbox: OutboxRows
    operations: OperationRows
    events: Sequence[ClaimEvent]
    notifications: EventRow | None = None


def net_batch(before: NodeState, after: NodeState, changes: Sequence[Change]) -> Batch:
    """Return the net effect of the changes that lead from one state to the other.

    :raises ChangeRejected: an operation id is used twice.
    """
    operations = net_operations(after, changes)
    claims = net_claims(before, changes)
    touched = (claim.uuid for claim in (*claims.new, *claims.changed))
    return Batch(
        claims=claims,
        units=net_units(before, after, touched),
        devices=net_devices(before, after, changes),
        migrations=net_migrations(before, after, changes),
        domains=net_domains(before, after, changes),
        outbox=net_outbox(before, after, changes),
        operations=operations,
        events=claim_events_of(changes),
        notifications=net_events(before, after, changes),
    )


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
        "migrations": ([each.uuid for each in batch.migrations.new], batch.migrations.gone),
    }
    return {table: roster(new) - roster(gone) for table, (new, gone) in rows.items() if new or gone}


class CommitWriter:
    """Write commits in an open transaction. Its statements are compiled once."""

    def __init__(self, dialect: Dialect, passed: Passed, events_kept: int) -> None:
        self._passed = passed
        self._node = NodeWriter(dialect)
        self._claims = ClaimWriter(dialect)
        self._units = UnitWriter(dialect)
        self._devices = DeviceWriter(dialect)
        self._migrations = MigrationWriter(dialect)
        self._domains = DomainWriter(dialect)
        self._outbox = OutboxWriter(dialect)
        self._operations = OperationWriter(dialect)
        self._history = HistoryWriter(dialect)
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
        self._claims.write(connection, batch.claims)
        self._migrations.write(connection, node_uuid, batch.migrations)
        self._domains.write(connection, node_uuid, batch.domains)
        self._passed("commit.claims")
        self._outbox.write(connection, node_uuid, batch.outbox)
        self._passed("commit.outbox")
        self._units.write(connection, node_uuid, batch.units)
        self._devices.write(connection, node_uuid, batch.devices)
        self._passed("commit.units")
        self._operations.write(connection, node_uuid, batch.operations)
        self._passed("commit.operations")
        self._history.write(connection, batch.events)
        self._passed("commit.events")
        self._events.write(connection, node_uuid, batch.notifications)
        self._passed("commit.notifications")
