"""A store without a database, with the same rules."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from msgspec.structs import replace

from rtagent.db.batch import Batch, Kept, net
from rtagent.db.event import ClaimEvent
from rtagent.db.held import HeldUnits
from rtagent.db.registry import BINARY, VERSION
from rtagent.errors import ChangeRejected, RevisionConflict, StoreUnavailable, WriterFenced
from rtagent.model.change import Change, Operation
from rtagent.model.claim import ACTIVE, ATTACH, EVACUATION, LIVE_STATES, OUTGOING, Claim
from rtagent.model.device import PciDevice
from rtagent.model.holding import Holding
from rtagent.model.host import HostState
from rtagent.model.migration import DEST, Migration, TakenOver
from rtagent.model.node import NodeRecord, Ratios
from rtagent.model.policy import Policy
from rtagent.model.specific import SpecificInventory
from rtagent.model.topology import Topology
from rtagent.ports import Enroll, Service, Stored


class _Node:
    """One node's rows. Changed only under the disk's lock, and only when every check passed."""

    def __init__(self, record: NodeRecord) -> None:
        self.record = record
        self.raised_by: object = None
        self.claims: dict[str, Claim] = {}
        self.units = HeldUnits()
        self.holdings: dict[str, Holding] = {}
        self.migrations: dict[str, Migration] = {}
        self.operations: dict[str, Kept] = {}
        self.events: list[ClaimEvent] = []
        self.devices: dict[str, PciDevice] = {}
        self.specific: tuple[SpecificInventory, ...] = ()
        self.topology: Topology | None = None
        self.ratios = Ratios()
        self.failed_builds = 0
        self.disk_available_least: int | None = None

    def stored(self) -> Stored:
        node = self.record.node
        where = {"host": node.host, "node": node.hypervisor_hostname}
        return Stored(
            node=node,
            revision=self.record.revision,
            epoch=self.record.epoch,
            claims=tuple(
                replace(c, **where) for c in self.claims.values() if c.state in LIVE_STATES
            ),
            holdings=tuple(self.holdings.values()),
            migrations=tuple(self.migrations.values()),
            devices=tuple(self.devices[address] for address in sorted(self.devices)),
            specific=self.specific,
            topology=self.topology,
            ratios=self.ratios,
            failed_builds=self.failed_builds,
            disk_available_least=self.disk_available_least,
        )

    def moved_by(self, claim: Claim) -> str | None:
        """The move that made a claim."""
        records = self.migrations.values()
        made = (m.uuid for m in records if m.role == DEST and m.claim_uuid == claim.uuid)
        return next(made, None)

    def require(self, epoch: int) -> None:
        if self.record.epoch != epoch:
            raise WriterFenced(
                node_uuid=self.record.node.uuid, ours=epoch, theirs=self.record.epoch
            )

    def write(self, after: HostState, changes: Sequence[Change], batch: Batch) -> None:
        self.units = self.units.after(batch.units)
        self.record = replace(self.record, revision=after.revision)
        self.claims.update((c.uuid, c) for c in batch.new_claims + batch.changed_claims)
        self.holdings.update(
            (h.domain_uuid, h) for h in batch.new_holdings + batch.changed_holdings
        )
        for domain_uuid in batch.gone_holdings:
            del self.holdings[domain_uuid]
        moves = batch.migrations
        self.migrations.update((each.uuid, each) for each in (*moves.new, *moves.changed))
        for uuid in moves.gone:
            del self.migrations[uuid]
        self.operations.update((kept[0].operation_id, kept) for kept in batch.operations)
        for kept in batch.ended:
            self.operations.setdefault(kept[0].operation_id, kept)
        self.events.extend(batch.events)
        self.devices, self.specific = dict(after.devices), after.specific
        self.topology = after.topology
        self.failed_builds = after.failed_builds
        self.disk_available_least = after.disk_available_least
        if any(change.policy for change in changes):
            self.ratios = _ratios(after.policy)


class Disk:
    """What outlives a process: hand it to the next store to play a restart, or to two at once."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.nodes: dict[str, _Node] = {}
        self.services: dict[tuple[str, str], Service] = {}

    def node(self, uuid: str) -> _Node:
        """:raises StoreUnavailable: there is none."""
        try:
            return self.nodes[uuid]
        except KeyError:
            raise StoreUnavailable(f"the database has no node {uuid}") from None


class MemoryStore:
    """`Store` on a `Disk`."""

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
            chosen = enroll([self._seen(record) for record in found])
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
            # As in SQL: an epoch that this very store has raised is still its own.
            if row.raised_by is not self or row.record.epoch < epoch:
                row.require(epoch)
            row.record = replace(row.record, epoch=row.record.epoch + 1)
            row.raised_by = self
            return row.stored()

    def commit(self, before: HostState, after: HostState, changes: Sequence[Change]) -> None:
        batch = net(before, after, changes)
        with self.disk.lock:
            row = self.disk.node(before.node.uuid)
            row.require(before.epoch)
            if row.record.revision != before.revision:
                raise RevisionConflict(
                    f"node {before.node.uuid} is at revision {row.record.revision},"
                    f" not {before.revision}"
                )
            for every in self.disk.nodes.values():
                _absent("claim", (c.uuid for c in batch.new_claims), every.claims)
            _absent("operation id", (o.operation_id for o, _ in batch.operations), row.operations)
            row.write(after, changes, batch)

    def epoch(self, node_uuid: str) -> int:
        with self.disk.lock:
            return self.disk.node(node_uuid).record.epoch

    def operation(self, node_uuid: str, operation_id: str) -> Operation | None:
        with self.disk.lock:
            row = self.disk.nodes.get(node_uuid)
            kept = row.operations.get(operation_id) if row else None
            return kept[0] if kept else None

    def evacuated(self, node_uuid: str) -> Mapping[str, TakenOver]:
        with self.disk.lock:
            mine = [
                claim
                for claim in self.disk.node(node_uuid).claims.values()
                if claim.state in (ACTIVE, OUTGOING) and claim.kind != ATTACH
            ]
            others = [
                (claim, row.moved_by(claim))
                for uuid, row in self.disk.nodes.items()
                if uuid != node_uuid
                for claim in row.claims.values()
                if claim.state == ACTIVE and claim.kind == EVACUATION
            ]
        return {
            claim.uuid: TakenOver(host=other.host, migration_uuid=move)
            for claim in mine
            for other, move in others
            if other.owner_id == claim.owner_id and other.created_at > claim.created_at
        }

    def purge(self, node_uuid: str, before: datetime) -> int:
        with self.disk.lock:
            row = self.disk.node(node_uuid)
            old = [name for name, (_, at) in row.operations.items() if at < before]
            released = [
                claim.uuid
                for claim in row.claims.values()
                if claim.state not in LIVE_STATES and claim.updated_at < before
            ]
            for name in old:
                del row.operations[name]
            for uuid in released:
                del row.claims[uuid]
            return len(old) + len(released)

    def history(self, node_uuid: str, claim_uuid: str | None = None) -> tuple[ClaimEvent, ...]:
        """A claim's events, or all of the node's, oldest first."""
        with self.disk.lock:
            events = self.disk.node(node_uuid).events
            return tuple(e for e in events if claim_uuid in (None, e.claim_uuid))

    def _seen(self, record: NodeRecord) -> NodeRecord:
        service = self.disk.services.get((record.node.host, BINARY))
        return replace(record, last_seen_up=service.last_seen_up if service else None)


class MemoryServiceRegistry:
    """`ServiceRegistry` on a `Disk`."""

    def __init__(self, disk: Disk | None = None) -> None:
        self.disk = disk or Disk()

    def heartbeat(self, host: str, now: datetime) -> Service:
        with self.disk.lock:
            old = self._service(host)
            return self._keep(
                replace(
                    old,
                    report_count=old.report_count + 1,
                    last_seen_up=now,
                    version=VERSION,
                )
            )

    def set_disabled(self, host: str, disabled: bool, reason: str | None) -> Service:
        with self.disk.lock:
            return self._keep(
                replace(self._service(host), disabled=disabled, disabled_reason=reason)
            )

    def services(self) -> Sequence[Service]:
        with self.disk.lock:
            return [self.disk.services[key] for key in sorted(self.disk.services)]

    def _service(self, host: str) -> Service:
        new = Service(host=host, binary=BINARY, version=VERSION)
        return self.disk.services.get((host, BINARY), new)

    def _keep(self, service: Service) -> Service:
        self.disk.services[service.host, service.binary] = service
        return service


def _absent(what: str, names: Iterable[str], kept: Mapping[str, object]) -> None:
    for name in names:
        if name in kept:
            raise ChangeRejected(f"{what} {name} is in the database already", taken=True)


def _ratios(policy: Policy) -> Ratios:
    return Ratios(
        cpu=policy.cpu_allocation_ratio,
        ram=policy.ram_allocation_ratio,
        disk=policy.disk_allocation_ratio,
    )
