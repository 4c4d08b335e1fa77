"""Services, nodes, claims, units, foreign domains, operations, history."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0001"
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
Amount = sa.BigInteger

_HELD = ("node_uuid", "kind", "unit", "owner_id")


def upgrade() -> None:
    op.create_table(
        "services",
        _needed("host", Name),
        _needed("binary", Name),
        _needed("report_count", Amount),
        sa.Column("last_seen_up", Moment),
        _needed("disabled", sa.Boolean),
        sa.Column("disabled_reason", Document),
        _needed("forced_down", sa.Boolean),
        _needed("version", sa.Integer),
        sa.PrimaryKeyConstraint("host", "binary", name="pk_services"),
        **_OPTIONS,
    )
    op.create_table(
        "compute_nodes",
        _needed("uuid", Uuid),
        _needed("host", Name),
        _needed("hypervisor_hostname", Name),
        sa.Column("hypervisor_type", Name),
        sa.Column("hypervisor_version", Amount),
        _needed("host_ip", Name),
        sa.Column("cpu_info", Document),
        *(
            sa.Column(name, Amount)
            for name in (
                "vcpus",
                "memory_mb",
                "local_gb",
                "vcpus_used",
                "memory_mb_used",
                "local_gb_used",
                "free_ram_mb",
                "free_disk_gb",
                "disk_available_least",
                "current_workload",
                "running_vms",
            )
        ),
        *(
            sa.Column(name, Document)
            for name in (
                "numa_topology",
                "pci_device_pools",
                "supported_hv_specs",
                "metrics",
                "stats",
            )
        ),
        sa.Column("cpu_allocation_ratio", sa.Double),
        sa.Column("ram_allocation_ratio", sa.Double),
        sa.Column("disk_allocation_ratio", sa.Double),
        _needed("revision", Amount),
        _needed("epoch", Amount),
        sa.Column("writer_machine_id", Name),
        sa.Column("writer_boot_id", Name),
        sa.Column("writer_state_path", Document),
        sa.Column("raised_by", Uuid),
        sa.Column("topology", Document),
        _needed("failed_builds", Amount),
        sa.Column("deleted_at", Moment),
        sa.PrimaryKeyConstraint("uuid", name="pk_compute_nodes"),
        **_OPTIONS,
    )
    op.create_index(
        "ix_compute_nodes_hypervisor_hostname", "compute_nodes", ["hypervisor_hostname"]
    )
    op.create_index("ix_compute_nodes_host", "compute_nodes", ["host"])
    op.create_table(
        "claims",
        _needed("uuid", Uuid),
        _needed("node_uuid", Uuid),
        _needed("owner_type", Name),
        _needed("owner_id", Name),
        _needed("kind", Name),
        _needed("state", Name),
        sa.Column("suspect", Document),
        _needed("vcpus", Amount),
        _needed("pcpus", Amount),
        _needed("memory_mb", Amount),
        _needed("disk_mb", Amount),
        sa.Column("migration_uuid", Uuid),
        _needed("created_at", Moment),
        _needed("updated_at", Moment),
        sa.Column("expires_at", Moment),
        _needed("revision", Amount),
        _needed("document", Document),
        sa.PrimaryKeyConstraint("uuid", name="pk_claims"),
        sa.UniqueConstraint("uuid", "owner_id", name="uq_claims_uuid_owner_id"),
        _of_node("claims"),
        **_OPTIONS,
    )
    op.create_index("ix_claims_node_uuid_state", "claims", ["node_uuid", "state"])
    op.create_table(
        "units",
        _needed("node_uuid", Uuid),
        _needed("kind", Kind),
        _needed("unit", Name),
        _needed("owner_id", Name),
        sa.PrimaryKeyConstraint("node_uuid", "kind", "unit", name="pk_units"),
        sa.UniqueConstraint(*_HELD, name="uq_units_node_uuid_kind_unit_owner_id"),
        _of_node("units"),
        **_OPTIONS,
    )
    op.create_table(
        "claim_units",
        _needed("claim_uuid", Uuid),
        _needed("node_uuid", Uuid),
        _needed("kind", Kind),
        _needed("unit", Name),
        _needed("owner_id", Name),
        sa.PrimaryKeyConstraint("claim_uuid", "kind", "unit", name="pk_claim_units"),
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
        **_OPTIONS,
    )
    op.create_index("ix_claim_units_node_uuid_kind_unit_owner_id", "claim_units", list(_HELD))
    op.create_table(
        "foreign_domains",
        _needed("node_uuid", Uuid),
        _needed("domain_uuid", Uuid),
        _needed("name", Document),
        _needed("active", sa.Boolean),
        _needed("vcpus", Amount),
        _needed("memory_mb", Amount),
        _needed("occupancy", Document),
        sa.PrimaryKeyConstraint("node_uuid", "domain_uuid", name="pk_foreign_domains"),
        _of_node("foreign_domains"),
        **_OPTIONS,
    )
    op.create_table(
        "operations",
        _needed("node_uuid", Uuid),
        _needed("operation_id", Name),
        _needed("digest", Name),
        _needed("method", Name),
        sa.Column("claim_uuid", Uuid),
        _needed("ended", sa.Boolean),
        _needed("at", Moment),
        sa.PrimaryKeyConstraint("node_uuid", "operation_id", name="pk_operations"),
        _of_node("operations"),
        **_OPTIONS,
    )
    op.create_table(
        "claim_events",
        sa.Column("id", Serial, autoincrement=True, nullable=False),
        _needed("claim_uuid", Uuid),
        _needed("node_uuid", Uuid),
        _needed("action", Name),
        _needed("at", Moment),
        _needed("actor", Document),
        _needed("request_id", Document),
        sa.Column("before", Document),
        _needed("after", Document),
        _needed("reason", Document),
        sa.PrimaryKeyConstraint("id", name="pk_claim_events"),
        _of_node("claim_events"),
        **_OPTIONS,
    )
    op.create_index(
        "ix_claim_events_node_uuid_claim_uuid", "claim_events", ["node_uuid", "claim_uuid"]
    )


def _needed(name: str, kind: object) -> sa.Column:
    return sa.Column(name, kind, nullable=False)


def _of_node(table: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        ["node_uuid"], ["compute_nodes.uuid"], name=f"fk_{table}_node_uuid"
    )
