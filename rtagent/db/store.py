"""SqlStore: durable state in SQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NoReturn
from uuid import uuid4

from sqlalchemy import Connection, Engine, Table, and_, insert, or_, select, update

from rtagent.db import codec, moves
from rtagent.db.batch import net
from rtagent.db.commits import CommitWriter, Passed
from rtagent.db.devices import device
from rtagent.db.event import ClaimEvent
from rtagent.db.purge import purge_node
from rtagent.db.registry import BINARY
from rtagent.db.schema import (
    claim_events,
    claims,
    compute_nodes,
    foreign_domains,
    operations,
    pci_devices,
    services,
)
from rtagent.db.transaction import Transactions
from rtagent.db.unit_reader import UnitReader, flagged
from rtagent.db.unit_writer import UnitWriter
from rtagent.errors import RevisionConflict, StoreUnavailable, WriterFenced
from rtagent.model.change import Change, Operation
from rtagent.model.claim import LIVE_STATES
from rtagent.model.holding import Holding
from rtagent.model.host import HostState
from rtagent.model.migration import TakenOver
from rtagent.model.node import NodeRecord
from rtagent.ports import Enroll, Stored


def _unobserved(_: str) -> None:
    """A boundary that nobody watches."""


class SqlStore:
    """`Store` on an engine of `open_engine`. Thread-safe."""

    def __init__(self, engine: Engine, passed: Passed = _unobserved) -> None:
        """:param passed: told the name of each boundary inside a transaction, see `failpoints`."""
        self._transactions = Transactions(engine)
        self._writer = CommitWriter(engine.dialect, passed)
        self._units = UnitWriter(engine.dialect)
        self._passed = passed
        self._me = str(uuid4())

    def enroll(self, uuid: str, hypervisor_hostname: str, enroll: Enroll) -> Stored:
        with self._transactions.rewrite(serial=True) as connection:
            records = _records(connection, uuid, hypervisor_hostname)
            chosen = enroll(records)
            _write_record(connection, chosen, records)
            self._passed("enroll.node")
            return self._read(connection, chosen.node.uuid, writing=True)

    def load(self, node_uuid: str) -> Stored:
        with self._transactions.read() as connection:
            return self._read(connection, node_uuid)

    def reload(self, node_uuid: str, epoch: int) -> Stored:
        # A reload whose own COMMIT was lost has raised the epoch without our knowing: that is
        # still ours, and known by its mark.
        node = compute_nodes.c
        ours = or_(node.epoch == epoch, and_(node.epoch > epoch, node.raised_by == self._me))
        raised = (
            update(compute_nodes)
            .where(node.uuid == node_uuid, ours)
            .values(epoch=node.epoch + 1, raised_by=self._me)
        )
        with self._transactions.rewrite() as connection:
            if connection.execute(raised).rowcount != 1:
                _refuse(connection, node_uuid, epoch)
            self._passed("reload.node")
            return self._read(connection, node_uuid, writing=True)

    def commit(self, before: HostState, after: HostState, changes: Sequence[Change]) -> None:
        batch = net(before, after, changes)
        node_uuid = before.node.uuid
        with self._transactions.write() as connection:
            self._passed("commit.begun")
            if not self._writer.move(connection, before, after, changes):
                _refuse(connection, node_uuid, before.epoch)
            self._writer.write(connection, node_uuid, batch)

    def epoch(self, node_uuid: str) -> int:
        query = select(compute_nodes.c.epoch).where(compute_nodes.c.uuid == node_uuid)
        with self._transactions.look() as connection:
            found: int | None = connection.execute(query).scalar_one_or_none()
        if found is None:
            raise StoreUnavailable(f"the database has no node {node_uuid}")
        return found

    def operation(self, node_uuid: str, operation_id: str) -> Operation | None:
        with self._transactions.look() as connection:
            row = connection.execute(
                _columns(operations, Operation).where(
                    operations.c.node_uuid == node_uuid, operations.c.operation_id == operation_id
                )
            ).one_or_none()
        return None if row is None else codec.operation(row)

    def evacuated(self, node_uuid: str) -> Mapping[str, TakenOver]:
        with self._transactions.look() as connection:
            return moves.evacuated(connection, node_uuid)

    def purge(self, node_uuid: str, before: datetime) -> int:
        return purge_node(self._transactions, node_uuid, before)

    def history(self, node_uuid: str, claim_uuid: str | None = None) -> tuple[ClaimEvent, ...]:
        """A claim's events, or all of the node's, oldest first.

        :raises StoreUnavailable:
        """
        query = _columns(claim_events, ClaimEvent).where(claim_events.c.node_uuid == node_uuid)
        if claim_uuid is not None:
            query = query.where(claim_events.c.claim_uuid == claim_uuid)
        with self._transactions.look() as connection:
            return tuple(map(codec.event, connection.execute(query.order_by(claim_events.c.id))))

    def _read(self, connection: Connection, node_uuid: str, *, writing: bool = False) -> Stored:
        """:param writing: mend the rows of units where they differ from the claims."""
        row = connection.execute(
            select(compute_nodes).where(compute_nodes.c.uuid == node_uuid)
        ).one_or_none()
        if row is None:
            raise StoreUnavailable(f"the database has no node {node_uuid}")
        node, held = codec.node(row), UnitReader(connection, node_uuid)
        its_claims = codec.claims(node, connection.execute(_live(node_uuid)), held.by_claim)
        faults = held.faults(its_claims)
        if faults and writing:
            self._units.rewrite(connection, node_uuid, its_claims)
        its_domains = connection.execute(
            _columns(foreign_domains, Holding).where(foreign_domains.c.node_uuid == node_uuid)
        )
        return Stored(
            node=node,
            revision=row.revision,
            epoch=row.epoch,
            claims=flagged(its_claims, faults),
            holdings=tuple(map(codec.holding, its_domains)),
            migrations=moves.read(connection, node_uuid),
            devices=tuple(map(device, connection.execute(_devices(node_uuid)))),
            specific=codec.specific(row.specific),
            topology=codec.topology(row.topology),
            ratios=codec.stored_ratios(row),
            failed_builds=row.failed_builds,
            disk_available_least=row.disk_available_least,
        )


def _live(node_uuid: str) -> Any:
    columns = (claims.c[name] for name in (*codec.CLAIM_COLUMNS, "document"))
    return select(*columns).where(
        claims.c.node_uuid == node_uuid, claims.c.state.in_(sorted(LIVE_STATES))
    )


def _devices(node_uuid: str) -> Any:
    mine = select(pci_devices).where(pci_devices.c.node_uuid == node_uuid)
    return mine.order_by(pci_devices.c.address)


def _records(connection: Connection, uuid: str, hypervisor_hostname: str) -> list[NodeRecord]:
    node = compute_nodes.c
    service = and_(services.c.host == node.host, services.c.binary == BINARY)
    rows = connection.execute(
        select(compute_nodes, services.c.last_seen_up)
        .join_from(compute_nodes, services, service, isouter=True)
        .where(or_(node.uuid == uuid, node.hypervisor_hostname == hypervisor_hostname))
    )
    return [codec.record(row) for row in rows]


def _write_record(
    connection: Connection, chosen: NodeRecord, records: Sequence[NodeRecord]
) -> None:
    """Insert it, or update the one that was read, if it is still the same writer's."""
    fields = codec.record_fields(chosen)
    read = [record for record in records if record.node.uuid == chosen.node.uuid]
    if not read:
        row = {**fields, "revision": chosen.revision, "failed_builds": 0}
        connection.execute(insert(compute_nodes), row)
        return
    node = compute_nodes.c
    same = update(compute_nodes).where(node.uuid == chosen.node.uuid, node.epoch == read[0].epoch)
    if connection.execute(same.values(fields)).rowcount != 1:
        raise StoreUnavailable("another agent enrolled for this node at the same moment")


def _refuse(connection: Connection, node_uuid: str, epoch: int) -> NoReturn:
    """Say why the node's row did not match."""
    node = compute_nodes.c
    row = connection.execute(
        select(node.epoch, node.revision).where(node.uuid == node_uuid)
    ).one_or_none()
    if row is None:
        raise StoreUnavailable(f"the database has no node {node_uuid}")
    if row.epoch != epoch:
        raise WriterFenced(node_uuid=node_uuid, ours=epoch, theirs=row.epoch)
    raise RevisionConflict(f"node {node_uuid} is at revision {row.revision}, which is not ours")


def _columns(table: Table, value: type[Any]) -> Any:
    return select(*(table.c[name] for name in value.__struct_fields__))
