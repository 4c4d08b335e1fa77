"""The configuration of the tables whose rows are records as they are, and what stands in the place
of a damaged row.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from msgspec.structs import replace
from sqlalchemy import Connection, select

from rtagent.db.checked_rows import LONG_AGO, MISMATCH, CheckedRow, credible
from rtagent.db.keyed_table import KeyedTable
from rtagent.db.schema import (
    allocation_outbox,
    claim_events,
    foreign_domains,
    migrations,
    operations,
)
from rtagent.errors import StoreDamaged
from rtagent.model.base import Value
from rtagent.model.change import Operation
from rtagent.model.claim import MIGRATION, MOVE_TYPES, ClaimEvent, ClaimFacts
from rtagent.model.consumers import OutboxRow
from rtagent.model.domain_usage import EVERY_KIND, DomainUsage, Occupancy
from rtagent.model.migration import DEST, ERROR, SOURCE, Migration
from rtagent.model.request import Flavor

_OPERATION = Operation.__struct_fields__


class OperationRow(Value, frozen=True, kw_only=True):
    """An operation, the time of its effect, and the revision of the node after its commit."""

    operation: Operation
    at: datetime
    revision: int


def _domain(row: CheckedRow) -> DomainUsage:
    """Return what can be read. What the domain has besides is unknown until an audit sees it."""
    values = row.values
    return DomainUsage(
        domain_uuid=values["domain_uuid"],
        name=values["name"] or "",
        active=values["active"] is not False or MISMATCH in row.faults,
        vcpus=credible(values["vcpus"]),
        memory_mb=credible(values["memory_mb"]),
        occupancy=replace(values["occupancy"] or Occupancy(), unknown=EVERY_KIND),
    )


def _migration(row: CheckedRow) -> Migration:
    """Return what can be read, with substitutes for required columns. With them, the record is that
    of a failed move whose guest has not left.
    """
    values = row.values
    known = values["migration_type"] in MOVE_TYPES
    substitutes = {
        "node_uuid": values["node_uuid"] or "",
        "role": values["role"] if values["role"] in (SOURCE, DEST) else SOURCE,
        "instance_uuid": values["instance_uuid"] or "",
        "migration_type": values["migration_type"] if known else MIGRATION,
        "status": values["status"] or ERROR,
        "created_at": values["created_at"] or LONG_AGO,
        "updated_at": values["updated_at"] or LONG_AGO,
    }
    return Migration(**{**values, **substitutes})


def _outbox_row(row: CheckedRow) -> OutboxRow:
    consumer = row.values["consumer_uuid"]
    return OutboxRow(consumer_uuid=consumer, revision=0, request_id="", at=LONG_AGO)


def _operation(row: OperationRow) -> dict[str, Any]:
    fields = {name: getattr(row.operation, name) for name in _OPERATION}
    return {**fields, "at": row.at, "revision": row.revision}


#: Domains without a claim, or with drift.
DOMAINS = KeyedTable(
    foreign_domains,
    DomainUsage,
    "domain_uuid",
    subject="domain",
    effect="an audit replaces it",
    substitute=_domain,
    documents={"occupancy": Occupancy},
)
#: Each side of each move, as its own agent records it.
MIGRATIONS = KeyedTable(
    migrations,
    Migration,
    "uuid",
    subject="migration",
    effect="the claims of the move are held",
    substitute=_migration,
    documents={"old_flavor": Flavor, "new_flavor": Flavor},
)
#: Consumers whose allocations have to be written. A row that is lost does no harm for long: the
#: agent compares all allocations at its start.
OUTBOX = KeyedTable(
    allocation_outbox,
    OutboxRow,
    "consumer_uuid",
    subject="consumer",
    effect="the allocations are written",
    substitute=_outbox_row,
    dispensable=True,
)
#: Operation ids whose effect is recorded.
OPERATIONS = KeyedTable(
    operations,
    OperationRow,
    "operation_id",
    encode=_operation,
    columns=(*_OPERATION, "at", "revision"),
)
#: The history of claims. Its key is generated.
HISTORY = KeyedTable(
    claim_events,
    ClaimEvent,
    "id",
    documents={"before": ClaimFacts, "after": ClaimFacts},
    digest=None,
)


def read_operation(connection: Connection, node_uuid: str, operation_id: str) -> Operation | None:
    """Read the record of an operation id.

    :raises StoreDamaged: the row is damaged.
    """
    query = select(*OPERATIONS.checked.selected).where(
        operations.c.node_uuid == node_uuid, operations.c.operation_id == operation_id
    )
    raw = connection.execute(query).one_or_none()
    if raw is None:
        return None
    row = OPERATIONS.decode(raw)
    if row.faults:
        raise StoreDamaged(
            f"operations {operation_id}: {', '.join(row.faults)} damaged: it is not known"
            " whether the call had an effect. Read the claims of its instance, and use another"
            " operation id"
        )
    return Operation(**{name: row.values[name] for name in _OPERATION})


def without_known(
    connection: Connection, node_uuid: str, rows: Sequence[OperationRow]
) -> list[OperationRow]:
    """Return the rows whose operation id is not in the database."""
    if not rows:
        return []
    ids = [row.operation.operation_id for row in rows]
    query = select(operations.c.operation_id).where(
        operations.c.node_uuid == node_uuid, operations.c.operation_id.in_(ids)
    )
    known = set(connection.scalars(query))
    return [row for row in rows if row.operation.operation_id not in known]
