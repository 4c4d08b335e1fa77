"""SqlStore: durable state in SQL."""

from collections.abc import Collection, Mapping, Sequence
from uuid import uuid4

from msgspec.structs import replace
from sqlalchemy import Connection, Engine, and_, bindparam, case, or_, select, update

from rtagent.db.claim_rows import read_claims
from rtagent.db.commit import CommitWriter, Passed, net_batch
from rtagent.db.device_rows import read_devices
from rtagent.db.event_rows import KEPT, read_sequence
from rtagent.db.history import purge_node, read_ended, read_evacuated, read_history, read_page
from rtagent.db.keyed_table import Findings
from rtagent.db.node_records import raise_conflict, read_records, write_record
from rtagent.db.node_rows import (
    check_rosters,
    read_drain,
    read_node,
    read_retention,
    write_drain,
    write_retention,
)
from rtagent.db.schema import compute_nodes
from rtagent.db.tables import DOMAINS, MIGRATIONS, OUTBOX, read_operation
from rtagent.db.transaction import Transactions
from rtagent.db.unit_rows import UnitReader, UnitWriter, with_suspects
from rtagent.model.change import Change, Operation
from rtagent.model.claim import ClaimEnd, ClaimEvent, HistoryPage
from rtagent.model.migration import TakenOver
from rtagent.model.node_state import NodeState
from rtagent.model.stored import Position, Retention, Stored
from rtagent.ports import Enroll


def _ignore(_: str) -> None:
    """Pass a boundary without a failpoint."""


#: Each heartbeat executes it.
_POSITION = select(compute_nodes.c.epoch, compute_nodes.c.revision).where(
    compute_nodes.c.uuid == bindparam("node")
)


class SqlStore:
    """A `Store` on an engine of `open_engine`. Thread-safe."""

    def __init__(
        self, engine: Engine, passed: Passed = _ignore, *, events_kept: int = KEPT
    ) -> None:
        """:param passed: called with the name of each boundary inside a transaction, see
            `rtagent.testing.failpoints`.
        :param events_kept: how many of the last events stay.
        """
        self._transactions = Transactions(engine)
        self._writer = CommitWriter(engine.dialect, passed, events_kept)
        self._units = UnitWriter(engine.dialect)
        self._passed = passed
        self._id = str(uuid4())

    def enroll(self, uuid: str, hypervisor_hostname: str, enroll: Enroll) -> Stored:
        # An update requires the epoch that was read, so only new records need more isolation.
        with self._transactions.write_named(f"enroll {hypervisor_hostname}") as connection:
            findings = Findings()
            records = read_records(connection, uuid, hypervisor_hostname, findings)
            chosen = enroll(records)
            write_record(connection, chosen, records)
            self._passed("enroll.node")
            return self._read(connection, chosen.node.uuid, findings, repair=True)

    def load(self, node_uuid: str) -> Stored:
        with self._transactions.snapshot() as connection:
            return self._read(connection, node_uuid, Findings())

    def reload(self, node_uuid: str, epoch: int) -> Stored:
        # A reload whose own COMMIT was lost has raised the epoch unknown to this process. Such an
        # epoch is recognised by `raised_by`, and still belongs to this store.
        node = compute_nodes.c
        ours = or_(node.epoch <= epoch, and_(node.epoch > epoch, node.raised_by == self._id))
        highest = case((node.epoch > epoch, node.epoch), else_=epoch)
        raised = (
            update(compute_nodes)
            .where(node.uuid == node_uuid, ours)
            .values(epoch=highest + 1, raised_by=self._id)
        )
        with self._transactions.write_repeatable() as connection:
            if connection.execute(raised).rowcount != 1:
                raise_conflict(connection, node_uuid, epoch)
            self._passed("reload.node")
            return self._read(connection, node_uuid, Findings(), repair=True)

    def commit(self, before: NodeState, after: NodeState, changes: Sequence[Change]) -> None:
        batch = net_batch(before, after, changes)
        with self._transactions.write() as connection:
            self._passed("commit.begun")
            self._writer.update_node(connection, before, after, changes, batch)
            self._writer.write(connection, before.node.uuid, batch)
            write_drain(connection, before, after)

    def position(self, node_uuid: str) -> Position | None:
        with self._transactions.query() as connection:
            row = connection.execute(_POSITION, {"node": node_uuid}).one_or_none()
        return None if row is None else Position(epoch=row.epoch, revision=row.revision)

    def operation(self, node_uuid: str, operation_id: str) -> Operation | None:
        with self._transactions.query() as connection:
            return read_operation(connection, node_uuid, operation_id)

    def evacuated(self, node_uuid: str) -> Mapping[str, TakenOver]:
        with self._transactions.query() as connection:
            return read_evacuated(connection, node_uuid)

    def ended(self, node_uuid: str, owners: Collection[str]) -> Mapping[str, ClaimEnd]:
        with self._transactions.query() as connection:
            return read_ended(connection, node_uuid, owners)

    def retention(self, node_uuid: str) -> Retention:
        with self._transactions.query() as connection:
            return read_retention(connection, node_uuid)

    def purge(self, node_uuid: str, revision: int, kept: Retention) -> int:
        deleted = purge_node(self._transactions, node_uuid, revision) if revision else 0
        with self._transactions.write_repeatable() as connection:
            write_retention(connection, node_uuid, kept)
        return deleted

    def history(self, node_uuid: str, claim_uuid: str | None = None) -> tuple[ClaimEvent, ...]:
        """Return the events of a claim, or of all claims of the node, oldest first.

        :raises StoreUnavailable:
        """
        with self._transactions.query() as connection:
            return read_history(connection, node_uuid, claim_uuid)

    def history_page(
        self, node_uuid: str, claim_uuid: str | None, before: int | None, limit: int
    ) -> HistoryPage:
        with self._transactions.query() as connection:
            return read_page(connection, node_uuid, claim_uuid, before, limit)

    def _read(
        self, connection: Connection, node_uuid: str, findings: Findings, *, repair: bool = False
    ) -> Stored:
        """Read everything of a node.

        :param findings: get the damage that is found.
        :param repair: rewrite the rows of units where they differ from the claims.
        """
        row = read_node(connection, node_uuid, findings)
        units = UnitReader(connection, node_uuid)
        claims = read_claims(connection, row, units, findings)
        faults = units.faults(claims)
        parts = connection, node_uuid, findings
        stored = Stored(
            node=row.node,
            revision=row.revision,
            epoch=row.epoch,
            claims=with_suspects(claims, faults),
            domain_usages=DOMAINS.read(*parts),
            migrations=MIGRATIONS.read(*parts),
            devices=read_devices(*parts),
            outbox=OUTBOX.read(*parts),
            drain=read_drain(*parts),
            event_sequence=read_sequence(connection, node_uuid),
            **row.facts,
        )
        check_rosters(row, stored, findings)
        if faults and repair and not findings.unknown:
            self._units.rewrite(connection, node_uuid, claims)
        return replace(stored, damage=tuple(findings.damage), unknown=tuple(findings.unknown))
