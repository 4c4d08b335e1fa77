"""The rows of a commit, as statements that are compiled once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Dialect, bindparam, delete, insert, select, update

from rtagent.db import codec
from rtagent.db.batch import Batch
from rtagent.db.codec import Fields
from rtagent.db.device_writer import DeviceWriter
from rtagent.db.devices import moves_devices
from rtagent.db.moves import MigrationWriter
from rtagent.db.schema import claim_events, claims, compute_nodes, foreign_domains, operations
from rtagent.db.statement import Statement
from rtagent.db.unit_writer import UnitWriter
from rtagent.errors import RevisionConflict
from rtagent.model.change import Change, Operation
from rtagent.model.holding import Holding
from rtagent.model.host import HostState

#: Told the name of each boundary that a transaction passes.
Passed = Callable[[str], None]

_HOLDING = Holding.__struct_fields__


class CommitWriter:
    """Writes a batch in a transaction that is open."""

    def __init__(self, dialect: Dialect, passed: Passed) -> None:
        self._dialect, self._passed = dialect, passed
        self._moves: dict[frozenset[str], Statement] = {}
        claim_columns = (*codec.CLAIM_COLUMNS, "document")
        its_domain = (
            foreign_domains.c.node_uuid == bindparam("its_node"),
            foreign_domains.c.domain_uuid == bindparam("its_domain"),
        )
        self._insert_claims = Statement(dialect, insert(claims), claim_columns)
        self._update_claims = Statement(
            dialect, update(claims).where(claims.c.uuid == bindparam("its_uuid")), claim_columns
        )
        self._units = UnitWriter(dialect)
        self._devices = DeviceWriter(dialect)
        self._migrations = MigrationWriter(dialect)
        self._insert_domains = Statement(dialect, insert(foreign_domains), ("node_uuid", *_HOLDING))
        self._update_domains = Statement(
            dialect, update(foreign_domains).where(*its_domain), _HOLDING
        )
        self._delete_domains = Statement(dialect, delete(foreign_domains).where(*its_domain), ())
        self._insert_operations = Statement(
            dialect, insert(operations), ("node_uuid", *Operation.__struct_fields__, "at")
        )
        # Inline: the ids that the database makes are not asked for.
        self._insert_events = Statement(
            dialect,
            insert(claim_events).inline(),
            [c.name for c in claim_events.c if c.name != "id"],
        )

    def move(
        self,
        connection: Connection,
        before: HostState,
        after: HostState,
        changes: Sequence[Change],
    ) -> bool:
        """Write the node's row, if it is as it was before; whether it was."""
        fields = codec.moved_fields(after)
        if any(change.topology or change.policy for change in changes):
            fields |= codec.host_fields(after)
            fields |= codec.numa_fields(after)
            fields |= codec.pool_fields(after)
        elif after.usage.numa != before.usage.numa:
            fields |= codec.numa_fields(after)
        if moves_devices(before, changes):
            fields |= codec.pool_fields(after)
        if any(change.specific is not None for change in changes):
            fields |= codec.specific_fields(after)
        where = {
            "its_uuid": before.node.uuid,
            "its_revision": before.revision,
            "its_epoch": before.epoch,
        }
        moved = self._move(fields).run(connection, [fields | where])
        self._passed("commit.node")
        return moved == 1

    def write(self, connection: Connection, node_uuid: str, batch: Batch) -> None:
        """Write all the other rows.

        :raises RevisionConflict: a claim that we have is not in the database.
        """
        self._write_claims(connection, batch)
        self._migrations.write(connection, node_uuid, batch.migrations)
        self._write_domains(connection, node_uuid, batch)
        self._passed("commit.claims")
        self._units.write(connection, node_uuid, batch.units)
        self._devices.write(connection, node_uuid, batch.devices)
        self._passed("commit.units")
        self._write_operations(connection, node_uuid, batch)
        self._passed("commit.operations")
        self._insert_events.run(connection, list(map(codec.event_fields, batch.events)))
        self._passed("commit.events")

    def _move(self, fields: Mapping[str, Any]) -> Statement:
        columns = frozenset(fields)
        if columns not in self._moves:
            clause = update(compute_nodes).where(
                compute_nodes.c.uuid == bindparam("its_uuid"),
                compute_nodes.c.revision == bindparam("its_revision"),
                compute_nodes.c.epoch == bindparam("its_epoch"),
            )
            self._moves[columns] = Statement(self._dialect, clause, sorted(columns))
        return self._moves[columns]

    def _write_claims(self, connection: Connection, batch: Batch) -> None:
        self._insert_claims.run(connection, list(map(codec.claim_fields, batch.new_claims)))
        changed = [
            codec.claim_fields(claim) | {"its_uuid": claim.uuid} for claim in batch.changed_claims
        ]
        if self._update_claims.run(connection, changed) != len(changed):
            raise RevisionConflict("a claim that is held here is not in the database")

    def _write_domains(self, connection: Connection, node_uuid: str, batch: Batch) -> None:
        def row(domain_uuid: str, fields: Fields) -> Fields:
            return {
                "node_uuid": node_uuid,
                "its_node": node_uuid,
                "its_domain": domain_uuid,
                **fields,
            }

        def rows(holdings: Sequence[Holding]) -> list[Fields]:
            return [row(h.domain_uuid, codec.holding_fields(h)) for h in holdings]

        self._delete_domains.run(connection, [row(uuid, {}) for uuid in batch.gone_holdings])
        self._update_domains.run(connection, rows(batch.changed_holdings))
        self._insert_domains.run(connection, rows(batch.new_holdings))

    def _write_operations(self, connection: Connection, node_uuid: str, batch: Batch) -> None:
        kept = batch.operations
        if batch.ended:
            ids = [operation.operation_id for operation, _ in batch.ended]
            known = set(
                connection.scalars(
                    select(operations.c.operation_id).where(
                        operations.c.node_uuid == node_uuid, operations.c.operation_id.in_(ids)
                    )
                )
            )
            kept += tuple(k for k in batch.ended if k[0].operation_id not in known)
        rows = [{"node_uuid": node_uuid, **codec.operation_fields(k)} for k in kept]
        self._insert_operations.run(connection, rows)
