"""Stores in memory, with the rules of the SQL stores."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from rtagent.db.commit import Batch, net_batch
from rtagent.db.event_rows import EventRow
from rtagent.db.keyed_table import TableRows
from rtagent.db.registry import BINARY, VERSION
from rtagent.db.tables import OperationRow
from rtagent.db.unit_rows import NO_UNIT_ROWS, ClaimUnitRow, UnitRows
from rtagent.errors import ChangeRejected, RevisionConflict, StoreUnavailable, WriterFenced
from rtagent.model.assignment import ResourceInventory
from rtagent.model.base import Value, made_from
from rtagent.model.change import Change, Operation
from rtagent.model.claim import (
    ACTIVE,
    ATTACH,
    EVACUATION,
    LIVE_STATES,
    OUTGOING,
    Claim,
    ClaimEnd,
    ClaimEvent,
    HistoryPage,
    NumberedEvent,
    Unit,
)
from rtagent.model.consumers import OutboxRow
from rtagent.model.device import PciDevice
from rtagent.model.domain_usage import DomainUsage
from rtagent.model.migration import DEST, Migration, TakenOver
from rtagent.model.node import Drain, NodeRecord, Ratios
from rtagent.model.node_state import NodeState
from rtagent.model.policy import Policy
from rtagent.model.stored import Position, Retention, Stored
from rtagent.model.topology import Topology
from rtagent.ports import Enroll, Service


class HeldUnits(Value, frozen=True, kw_only=True):
    """The rows of ``units`` and ``claim_units`` of a node, with the rules of their keys.

    :ivar owners: by unit. :ivar claims: the rows of the claims that hold the units.
    """

    owners: Mapping[Unit, str] = {}
    claims: frozenset[ClaimUnitRow] = frozenset()

    def after(self, rows: UnitRows) -> HeldUnits:
        """Apply the rows of a commit.

        :raises ChangeRejected: a unit would have two owners, or be freed while a claim has it.
        """
        if rows is NO_UNIT_ROWS:
            return self
        owners = dict(self.owners)
        claims = self.claims.difference(rows.gone_claim_units)
        held = {(kind, unit) for kind, unit, *_ in claims}
        for kind, unit, _ in rows.gone_units:
            if (kind, unit) in held:
                raise ChangeRejected(f"a claim still has {kind} {unit}")
            owners.pop((kind, unit), None)
        for kind, unit, owner in rows.new_units:
            if (kind, unit) in owners:
                raise ChangeRejected(f"{kind} {unit} already has an owner")
            owners[kind, unit] = owner
        for row in rows.new_claim_units:
            kind, unit, owner, _ = row
            if row in claims or owners.get((kind, unit)) != owner:
                raise ChangeRejected(f"{kind} {unit} does not belong to {owner}")
        return HeldUnits(owners=owners, claims=claims.union(rows.new_claim_units))


class _Node:
    """The rows of one node. They change only under the disk's lock, after all checks."""

    def __init__(self, record: NodeRecord) -> None:
        self.record = record
        self.raised_by: object = None
        self.claims: dict[str, Claim] = {}
        self.units = HeldUnits()
        self.domain_usages: dict[str, DomainUsage] = {}
        self.migrations: dict[str, Migration] = {}
        self.operations: dict[str, OperationRow] = {}
        self.events: list[ClaimEvent] = []
        self.devices: dict[str, PciDevice] = {}
        self.resource_inventories: tuple[ResourceInventory, ...] = ()
        self.topology: Topology | None = None
        self.ratios = Ratios()
        self.failed_builds = 0
        self.disk_available_least: int | None = None
        self.drain: Drain | None = None
        self.retention = Retention()
        self.outbox: dict[str, OutboxRow] = {}
        self.notifications: list[EventRow] = []

    @property
    def position(self) -> Position:
        return Position(epoch=self.record.epoch, revision=self.record.revision)

    def stored(self) -> Stored:
        node = self.record.node
        where = {"host": node.host, "node": node.hypervisor_hostname}
        return made_from(
            Stored,
            self.record,
            claims=tuple(
                replace(c, **where) for c in self.claims.values() if c.state in LIVE_STATES
            ),
            domain_usages=tuple(self.domain_usages.values()),
            migrations=tuple(self.migrations.values()),
            devices=tuple(self.devices[address] for address in sorted(self.devices)),
            resource_inventories=self.resource_inventories,
            topology=self.topology,
            ratios=self.ratios,
            failed_builds=self.failed_builds,
            disk_available_least=self.disk_available_least,
            drain=self.drain,
            outbox=tuple(self.outbox.values()),
            event_sequence=self.notifications[-1].sequence if self.notifications else 0,
        )

    def migration_of(self, claim: Claim) -> str | None:
        """Return the uuid of the migration for which a claim was made."""
        records = self.migrations.values()
        made = (m.uuid for m in records if m.role == DEST and m.claim_uuid == claim.uuid)
        return next(made, None)

    def require(self, epoch: int) -> None:
        """:raises WriterFenced: the node has a higher epoch."""
        if self.record.epoch > epoch:
            raise WriterFenced(
                node_uuid=self.record.node.uuid, ours=epoch, theirs=self.record.epoch
            )

    def write(self, after: NodeState, changes: Sequence[Change], batch: Batch) -> None:
        """Write a commit.

        :raises ChangeRejected: the keys of the units refuse it; nothing is written then.
        """
        self.units = self.units.after(batch.units)
        self.record = replace(self.record, revision=after.revision)
        _write(self.claims, batch.claims, "uuid")
        _write(self.domain_usages, batch.domains, "domain_uuid")
        _write(self.migrations, batch.migrations, "uuid")
        _write(self.outbox, batch.outbox, "consumer_uuid")
        for row in batch.operations:
            self.operations[row.operation.operation_id] = row
        for row in batch.ended:
            self.operations.setdefault(row.operation.operation_id, row)
        self.events.extend(batch.events)
        if batch.notifications is not None:
            self.notifications.append(batch.notifications)
        self.devices, self.resource_inventories = dict(after.devices), after.resource_inventories
        self.topology = after.topology
        self.failed_builds = after.failed_builds
        self.disk_available_least = after.disk_available_least
        self.drain = after.drain
        if any(change.policy for change in changes):
            self.ratios = _ratios(after.policy)


class Disk:
    """The rows, which outlive a process. Give one disk to a second store for a restart, or for two
    writers at once.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.nodes: dict[str, _Node] = {}
        self.services: dict[tuple[str, str], Service] = {}

    def node(self, uuid: str) -> _Node:
        """:raises StoreUnavailable: there is no such node."""
        try:
            return self.nodes[uuid]
        except KeyError:
            raise StoreUnavailable(f"the database has no node {uuid}") from None


class MemoryStore:
    """A `Store` on a `Disk`."""

    def __init__(self, disk: Disk | None = None) -> None:
        self.disk = disk or Disk()

    def enroll(self, uuid: str, hypervisor_hostname: str, enroll: Enroll) -> Stored:
        with self.disk.lock:
            found = (
                row.record
                for row in self.disk.nodes.values()
                if uuid == row.record.node.uuid
                or hypervisor_hostname == row.record.node.hypervisor_hostname
            )
            chosen = enroll([self._with_heartbeat(record) for record in found])
            row = self.disk.nodes.setdefault(chosen.node.uuid, _Node(chosen))
            row.record = replace(chosen, revision=row.record.revision)
            row.raised_by = None
            return row.stored()

    def load(self, node_uuid: str) -> Stored:
        with self.disk.lock:
            return self.disk.node(node_uuid).stored()

    def reload(self, node_uuid: str, epoch: int) -> Stored:
        with self.disk.lock:
            row = self.disk.node(node_uuid)
            # As in the SQL store, an epoch that this store has raised still belongs to it.
            if row.raised_by is not self:
                row.require(epoch)
            row.record = replace(row.record, epoch=max(row.record.epoch, epoch) + 1)
            row.raised_by = self
            return row.stored()

    def commit(self, before: NodeState, after: NodeState, changes: Sequence[Change]) -> None:
        batch = net_batch(before, after, changes)
        with self.disk.lock:
            row = self.disk.node(before.node.uuid)
            row.require(before.epoch)
            if row.position != before.position:
                raise RevisionConflict(
                    f"node {before.node.uuid} is at {row.position}, not at {before.position}"
                )
            for every in self.disk.nodes.values():
                _require_absent("claim", (c.uuid for c in batch.claims.new), every.claims)
            ids = (new.operation.operation_id for new in batch.operations)
            _require_absent("operation id", ids, row.operations)
            row.write(after, changes, batch)

    def position(self, node_uuid: str) -> Position | None:
        with self.disk.lock:
            row = self.disk.nodes.get(node_uuid)
            return None if row is None else row.position

    def operation(self, node_uuid: str, operation_id: str) -> Operation | None:
        with self.disk.lock:
            node = self.disk.nodes.get(node_uuid)
            row = node.operations.get(operation_id) if node else None
            return row.operation if row else None

    def evacuated(self, node_uuid: str) -> Mapping[str, TakenOver]:
        with self.disk.lock:
            mine = [
                claim
                for claim in self.disk.node(node_uuid).claims.values()
                if claim.state in (ACTIVE, OUTGOING) and claim.kind != ATTACH
            ]
            others = [
                (claim, row.migration_of(claim))
                for uuid, row in self.disk.nodes.items()
                if uuid != node_uuid
                for claim in row.claims.values()
                if claim.state == ACTIVE and claim.kind == EVACUATION
            ]
        return {
            claim.uuid: TakenOver(host=other.host, migration_uuid=migration)
            for claim in mine
            for other, migration in others
            if other.owner_id == claim.owner_id and other.created_at > claim.created_at
        }

    def ended(self, node_uuid: str, owners: Collection[str]) -> Mapping[str, ClaimEnd]:
        with self.disk.lock:
            row = self.disk.node(node_uuid)
            actions = {event.claim_uuid: event.action for event in row.events}
            released = sorted(
                (c for c in row.claims.values() if c.state not in LIVE_STATES and c.kind != ATTACH),
                key=lambda claim: claim.revision,
            )
        return {
            claim.owner_id: ClaimEnd(
                claim_uuid=claim.uuid, action=actions.get(claim.uuid, ""), revision=claim.revision
            )
            for claim in released
            if claim.owner_id in owners
        }

    def retention(self, node_uuid: str) -> Retention:
        with self.disk.lock:
            return self.disk.node(node_uuid).retention

    def purge(self, node_uuid: str, revision: int, kept: Retention) -> int:
        with self.disk.lock:
            row = self.disk.node(node_uuid)
            row.retention = kept
            old = [name for name, op in row.operations.items() if op.revision <= revision]
            released = [
                claim.uuid
                for claim in row.claims.values()
                if claim.state not in LIVE_STATES and claim.revision <= revision
            ]
            for name in old:
                del row.operations[name]
            for uuid in released:
                del row.claims[uuid]
            return len(old) + len(released)

    def history(self, node_uuid: str, claim_uuid: str | None = None) -> tuple[ClaimEvent, ...]:
        """Return the events of a claim, or of all claims of the node, oldest first."""
        with self.disk.lock:
            events = self.disk.node(node_uuid).events
            return tuple(e for e in events if claim_uuid in (None, e.claim_uuid))

    def history_page(
        self, node_uuid: str, claim_uuid: str | None, before: int | None, limit: int
    ) -> HistoryPage:
        with self.disk.lock:
            events = self.disk.node(node_uuid).events
            found = [
                NumberedEvent(number=number, event=event)
                for number, event in enumerate(events, 1)
                if claim_uuid in (None, event.claim_uuid) and (before is None or number < before)
            ]
        newest = tuple(found[: -limit - 1 : -1])
        return HistoryPage(events=newest, older=newest[-1].number if len(newest) == limit else None)

    def _with_heartbeat(self, record: NodeRecord) -> NodeRecord:
        service = self.disk.services.get((record.node.host, BINARY))
        if service is None:
            return replace(record, report_count=None, last_seen_up=None)
        return replace(record, report_count=service.report_count, last_seen_up=service.last_seen_up)


class MemoryServiceRegistry:
    """A `ServiceRegistry` on a `Disk`."""

    def __init__(self, disk: Disk | None = None) -> None:
        self.disk = disk or Disk()

    def heartbeat(self, host: str, now: datetime) -> Service:
        with self.disk.lock:
            old = self._service(host)
            return self._write(
                replace(old, report_count=old.report_count + 1, last_seen_up=now, version=VERSION)
            )

    def set_disabled(self, host: str, disabled: bool, reason: str | None) -> Service:
        with self.disk.lock:
            return self._write(
                replace(self._service(host), disabled=disabled, disabled_reason=reason)
            )

    def set_forced_down(self, host: str, forced_down: bool) -> Service:
        with self.disk.lock:
            return self._write(replace(self._service(host), forced_down=forced_down))

    def services(self) -> Sequence[Service]:
        with self.disk.lock:
            return [self.disk.services[key] for key in sorted(self.disk.services)]

    def _service(self, host: str) -> Service:
        new = Service(host=host, binary=BINARY, version=VERSION)
        return self.disk.services.get((host, BINARY), new)

    def _write(self, service: Service) -> Service:
        self.disk.services[service.host, service.binary] = service
        return service


def _write(stored: dict[str, Any], rows: TableRows[Any], key: str) -> None:
    stored.update((getattr(row, key), row) for row in (*rows.new, *rows.changed))
    for name in rows.gone:
        del stored[name]


def _require_absent(what: str, names: Iterable[str], rows: Mapping[str, object]) -> None:
    for name in names:
        if name in rows:
            raise ChangeRejected(f"{what} {name} is already in the database", taken=True)


def _ratios(policy: Policy) -> Ratios:
    return Ratios(
        cpu=policy.cpu_allocation_ratio,
        ram=policy.ram_allocation_ratio,
        disk=policy.disk_allocation_ratio,
    )
