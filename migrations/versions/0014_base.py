"""Create all tables, as release 0.2.0 has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from alembic import context, op
from sqlalchemy.dialects import mysql

revision = "0014"
down_revision = None

_MYSQL = ("mysql", "mariadb")
_OPTIONS = {
    f"{dialect}_{option}": value
    for dialect in _MYSQL
    for option, value in (
        ("engine", "InnoDB"),
        ("default_charset", "utf8mb4"),
        ("collate", "utf8mb4_bin"),
    )
}

Uuid = sa.String(36)
Name = sa.String(255)
Kind = sa.String(32)
Document = sa.Text().with_variant(mysql.MEDIUMTEXT(), *_MYSQL)
Moment = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), *_MYSQL)
Serial = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
Quantity = sa.BigInteger()
Flag = sa.Boolean()
Number = sa.Integer()
Ratio = sa.Double()

_HELD = ("node_uuid", "kind", "unit", "owner_id")


def upgrade() -> None:
    _create_nodes()
    _create_claims()
    _create_units()
    _create_host()
    _create_records_of_calls()
    _create_outboxes()
    _create_aggregates()
    _create_servers()


def _create_nodes() -> None:
    _create("schema_compatibility", _required(oldest_writer=Kind), key=["oldest_writer"])
    _create(
        "services",
        _required(host=Name, binary=Name, report_count=Quantity),
        _optional(last_seen_up=Moment),
        _required(disabled=Flag),
        _optional(disabled_reason=Document),
        _required(forced_down=Flag, version=Number),
        key=["host", "binary"],
    )
    _create(
        "compute_nodes",
        _required(uuid=Uuid, host=Name, hypervisor_hostname=Name),
        _optional(hypervisor_type=Name, hypervisor_version=Quantity),
        _required(host_ip=Name),
        _optional(cpu_info=Document),
        _optional(vcpus=Quantity, memory_mb=Quantity, local_gb=Quantity),
        _optional(vcpus_used=Quantity, memory_mb_used=Quantity, local_gb_used=Quantity),
        _optional(free_ram_mb=Quantity, free_disk_gb=Quantity, disk_available_least=Quantity),
        _optional(current_workload=Quantity, running_vms=Quantity),
        _optional(numa_topology=Document, pci_device_pools=Document, supported_hv_specs=Document),
        _optional(metrics=Document, stats=Document),
        _optional(cpu_allocation_ratio=Ratio, ram_allocation_ratio=Ratio),
        _optional(disk_allocation_ratio=Ratio),
        _required(revision=Quantity, epoch=Quantity),
        _optional(writer_machine_id=Name, writer_boot_id=Name, writer_state_path=Document),
        _optional(raised_by=Uuid, topology=Document, resource_inventories=Document),
        _required(failed_builds=Quantity),
        _optional(deleted_at=Moment, rebooted_at=Moment),
        _optional(row_digest=Quantity, host_digest=Quantity, inventories_digest=Quantity),
        _optional(claims_roster=Quantity, devices_roster=Quantity, domains_roster=Quantity),
        _optional(migrations_roster=Quantity, policy=Document, policy_digest=Quantity),
        _optional(draining=Flag),
        key=["uuid"],
        indexes=[["hypervisor_hostname"], ["host"]],
    )
    _create(
        "node_hosts",
        _required(node_uuid=Uuid, host=Name, recorded_at=Moment),
        key=["node_uuid"],
    )


def _create_claims() -> None:
    _create(
        "claims",
        _required(uuid=Uuid, node_uuid=Uuid, owner_type=Name, owner_id=Name, kind=Name),
        _required(state=Name),
        _optional(suspect=Document),
        _required(vcpus=Quantity, pcpus=Quantity, memory_mb=Quantity, disk_mb=Quantity),
        _optional(migration_uuid=Uuid),
        _required(created_at=Moment, updated_at=Moment),
        _optional(expires_at=Moment),
        _required(revision=Quantity, document=Document),
        _optional(row_digest=Quantity),
        [sa.UniqueConstraint("uuid", "owner_id", name="uq_claims_uuid_owner_id")],
        key=["uuid"],
        indexes=[["node_uuid", "state"], ["owner_id"]],
        of_node=True,
    )
    _create(
        "claim_events",
        [sa.Column("id", Serial, autoincrement=True, nullable=False)],
        _required(claim_uuid=Uuid, node_uuid=Uuid, action=Name, at=Moment, actor=Document),
        _required(request_id=Document),
        _optional(before=Document),
        _required(after=Document, reason=Document),
        key=["id"],
        indexes=[["node_uuid", "claim_uuid"]],
        of_node=True,
    )


def _create_units() -> None:
    _create(
        "units",
        _required(node_uuid=Uuid, kind=Kind, unit=Name, owner_id=Name),
        [sa.UniqueConstraint(*_HELD, name="uq_units_node_uuid_kind_unit_owner_id")],
        key=["node_uuid", "kind", "unit"],
        of_node=True,
    )
    _create(
        "claim_units",
        _required(claim_uuid=Uuid, node_uuid=Uuid, kind=Kind, unit=Name, owner_id=Name),
        [
            sa.ForeignKeyConstraint(
                _HELD,
                [f"units.{column}" for column in _HELD],
                name="fk_claim_units_node_uuid_kind_unit_owner_id",
            ),
            sa.ForeignKeyConstraint(
                ["claim_uuid", "owner_id"],
                ["claims.uuid", "claims.owner_id"],
                name="fk_claim_units_claim_uuid_owner_id",
            ),
        ],
        key=["claim_uuid", "kind", "unit"],
        indexes=[_HELD],
    )


def _create_host() -> None:
    _create(
        "pci_devices",
        _required(node_uuid=Uuid, address=Kind, vendor_id=Kind, product_id=Kind, dev_type=Kind),
        _required(dev_id=Name, label=Name),
        _optional(numa_node=Number, parent_addr=Kind),
        _required(status=Kind),
        _optional(instance_uuid=Uuid, request_id=Name),
        _required(extra_info=Document),
        _optional(row_digest=Quantity),
        key=["node_uuid", "address"],
        of_node=True,
    )
    _create(
        "foreign_domains",
        _required(node_uuid=Uuid, domain_uuid=Uuid, name=Document, active=Flag, vcpus=Quantity),
        _required(memory_mb=Quantity, occupancy=Document),
        _optional(row_digest=Quantity),
        key=["node_uuid", "domain_uuid"],
        of_node=True,
    )
    _create(
        "drains",
        _required(node_uuid=Uuid, document=Document),
        _optional(row_digest=Quantity),
        key=["node_uuid"],
        of_node=True,
    )


def _create_records_of_calls() -> None:
    _create(
        "migrations",
        _required(uuid=Uuid, node_uuid=Uuid, role=Kind, instance_uuid=Uuid, migration_type=Kind),
        _required(status=Name),
        _optional(claim_uuid=Uuid, source_compute=Name, source_node=Name, dest_compute=Name),
        _optional(dest_node=Name, dest_host=Name, old_flavor=Document, new_flavor=Document),
        _required(created_at=Moment, updated_at=Moment),
        _optional(row_digest=Quantity),
        key=["uuid", "node_uuid"],
        indexes=[["node_uuid"]],
        of_node=True,
    )
    _create(
        "operations",
        _required(node_uuid=Uuid, operation_id=Name, digest=Name, method=Name),
        _optional(claim_uuid=Uuid),
        _required(ended=Flag, at=Moment),
        _optional(revision=Quantity, row_digest=Quantity),
        key=["node_uuid", "operation_id"],
        of_node=True,
    )
    _create(
        "retention",
        _required(node_uuid=Uuid, document=Document),
        _optional(row_digest=Quantity),
        key=["node_uuid"],
        of_node=True,
    )


def _create_outboxes() -> None:
    _create(
        "allocation_outbox",
        _required(node_uuid=Uuid, consumer_uuid=Name, revision=Quantity, request_id=Document),
        _required(at=Moment),
        _optional(row_digest=Quantity),
        key=["node_uuid", "consumer_uuid"],
        of_node=True,
    )
    _create(
        "event_outbox",
        _required(node_uuid=Uuid, sequence=Quantity, events=Number, epoch=Quantity),
        _required(document=Document),
        _optional(row_digest=Quantity),
        key=["node_uuid", "sequence"],
        of_node=True,
    )
    _create(
        "event_positions",
        _required(node_uuid=Uuid, sequence=Quantity),
        key=["node_uuid"],
        of_node=True,
    )


def _create_aggregates() -> None:
    _create(
        "aggregates",
        _required(uuid=Uuid, name=Name),
        [sa.UniqueConstraint("name", name="uq_aggregates_name")],
        key=["uuid"],
    )
    _create(
        "aggregate_hosts",
        _required(aggregate_uuid=Uuid, host=Name),
        _reference("aggregate_hosts", "aggregate_uuid", "aggregates.uuid"),
        key=["aggregate_uuid", "host"],
    )
    _create(
        "aggregate_metadata",
        _required(aggregate_uuid=Uuid, key=Name, value=Document),
        _reference("aggregate_metadata", "aggregate_uuid", "aggregates.uuid"),
        key=["aggregate_uuid", "key"],
    )
    _create("deleted_aggregates", _required(uuid=Uuid, at=Moment), key=["uuid"])


def _create_servers() -> None:
    _create(
        "servers",
        _required(uuid=Uuid, name=Name, vm_state=Kind),
        _optional(host=Name, operation_uuid=Uuid),
        _required(created_at=Moment, document=Document),
        key=["uuid"],
    )
    _create(
        "server_operations",
        _required(uuid=Uuid, server_uuid=Uuid, kind=Kind, state=Kind),
        _optional(owner=Uuid),
        _required(epoch=Quantity, beat=Quantity, created_at=Moment, document=Document),
        key=["uuid"],
        indexes=[["server_uuid"], ["state"]],
    )


def _create(
    table: str,
    *parts: Sequence[Any],
    key: Sequence[str],
    indexes: Sequence[Sequence[str]] = (),
    of_node: bool = False,
) -> None:
    """Create a table and its indexes, unless they are there.

    MariaDB commits at each statement. If the connection is lost, the upgrade is repeated.
    """
    if not _is_there(table):
        columns = [part for some in parts for part in some]
        node = _reference(table, "node_uuid", "compute_nodes.uuid") if of_node else []
        key_of_table = sa.PrimaryKeyConstraint(*key, name=f"pk_{table}")
        op.create_table(table, *columns, key_of_table, *node, **_OPTIONS)
    for names in indexes:
        index = f"ix_{table}_{'_'.join(names)}"
        if not _is_there(table, index):
            op.create_index(index, table, list(names))


def _is_there(table: str, index: str | None = None) -> bool:
    if context.is_offline_mode():  # --sql: there is no database to look at
        return False
    inspector = sa.inspect(op.get_bind())
    if index is None:
        return inspector.has_table(table)
    return any(found["name"] == index for found in inspector.get_indexes(table))


def _required(**columns: Any) -> list[Any]:
    return [sa.Column(name, kind, nullable=False) for name, kind in columns.items()]


def _optional(**columns: Any) -> list[Any]:
    return [sa.Column(name, kind) for name, kind in columns.items()]


def _reference(table: str, column: str, other: str) -> list[Any]:
    return [sa.ForeignKeyConstraint([column], [other], name=f"fk_{table}_{column}")]
