"""Create services, nodes, claims, units, foreign domains, operations, history."""

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
Quantity = sa.BigInteger

_HELD = ("node_uuid", "kind", "unit", "owner_id")

_NODE_AMOUNTS = (
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
_NODE_DOCUMENTS = ("numa_topology", "pci_device_pools", "supported_hv_specs", "metrics", "stats")


def upgrade() -> None:
    _create_services()
    _create_compute_nodes()
    _create_claims()
    _create_units()
    _create_foreign_domains()
    _create_operations()
    _create_claim_events()


def _create_services() -> None:
    op.create_table(
        "services",
        _required("host", Name),
        _required("binary", Name),
        _required("report_count", Quantity),
        sa.Column("last_seen_up", Moment),
        _required("disabled", sa.Boolean),
        sa.Column("disabled_reason", Document),
        _required("forced_down", sa.Boolean),
        _required("version", sa.Integer),
        sa.PrimaryKeyConstraint("host", "binary", name="pk_services"),
        **_OPTIONS,
    )


def _create_compute_nodes() -> None:
    op.create_table(
        "compute_nodes",
        _required("uuid", Uuid),
        _required("host", Name),
        _required("hypervisor_hostname", Name),
        sa.Column("hypervisor_type", Name),
        sa.Column("hypervisor_version", Quantity),
        _required("host_ip", Name),
        sa.Column("cpu_info", Document),
        *(sa.Column(name, Quantity) for name in _NODE_AMOUNTS),
        *(sa.Column(name, Document) for name in _NODE_DOCUMENTS),
        sa.Column("cpu_allocation_ratio", sa.Double),
        sa.Column("ram_allocation_ratio", sa.Double),
        sa.Column("disk_allocation_ratio", sa.Double),
        _required("revision", Quantity),
        _required("epoch", Quantity),
        sa.Column("writer_machine_id", Name),
        sa.Column("writer_boot_id", Name),
        sa.Column("writer_state_path", Document),
        sa.Column("raised_by", Uuid),
        sa.Column("topology", Document),
        _required("failed_builds", Quantity),
        sa.Column("deleted_at", Moment),
        sa.PrimaryKeyConstraint("uuid", name="pk_compute_nodes"),
        **_OPTIONS,
    )
    op.create_index(
        "ix_compute_nodes_hypervisor_hostname", "compute_nodes", ["hypervisor_hostname"]
    )
    op.create_index("ix_compute_nodes_host", "compute_nodes", ["host"])


def _create_claims() -> None:
    op.create_table(
        "claims",
        _required("uuid", Uuid),
        _required("node_uuid", Uuid),
        _required("owner_type", Name),
        _required("owner_id", Name),
        _required("kind", Name),
        _required("state", Name),
        sa.Column("suspect", Document),
        _required("vcpus", Quantity),
        _required("pcpus", Quantity),
        _required("memory_mb", Quantity),
        _required("disk_mb", Quantity),
        sa.Column("migration_uuid", Uuid),
        _required("created_at", Moment),
        _required("updated_at", Moment),
        sa.Column("expires_at", Moment),
        _required("revision", Quantity),
        _required("document", Document),
        sa.PrimaryKeyConstraint("uuid", name="pk_claims"),
        sa.UniqueConstraint("uuid", "owner_id", name="uq_claims_uuid_owner_id"),
        _node_key("claims"),
        **_OPTIONS,
    )
    op.create_index("ix_claims_node_uuid_state", "claims", ["node_uuid", "state"])


def _create_units() -> None:
    op.create_table(
        "units",
        _required("node_uuid", Uuid),
        _required("kind", Kind),
        _required("unit", Name),
        _required("owner_id", Name),
        sa.PrimaryKeyConstraint("node_uuid", "kind", "unit", name="pk_units"),
        sa.UniqueConstraint(*_HELD, name="uq_units_node_uuid_kind_unit_owner_id"),
        _node_key("units"),
        **_OPTIONS,
    )
    op.create_table(
        "claim_units",
        _required("claim_uuid", Uuid),
        _required("node_uuid", Uuid),
        _required("kind", Kind),
        _required("unit", Name),
        _required("owner_id", Name),
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


def _create_foreign_domains() -> None:
    op.create_table(
        "foreign_domains",
        _required("node_uuid", Uuid),
        _required("domain_uuid", Uuid),
        _required("name", Document),
        _required("active", sa.Boolean),
        _required("vcpus", Quantity),
        _required("memory_mb", Quantity),
        _required("occupancy", Document),
        sa.PrimaryKeyConstraint("node_uuid", "domain_uuid", name="pk_foreign_domains"),
        _node_key("foreign_domains"),
        **_OPTIONS,
    )


def _create_operations() -> None:
    op.create_table(
        "operations",
        _required("node_uuid", Uuid),
        _required("operation_id", Name),
        _required("digest", Name),
        _required("method", Name),
        sa.Column("claim_uuid", Uuid),
        _required("ended", sa.Boolean),
        _required("at", Moment),
        sa.PrimaryKeyConstraint("node_uuid", "operation_id", name="pk_operations"),
        _node_key("operations"),
        **_OPTIONS,
    )


def _create_claim_events() -> None:
    op.create_table(
        "claim_events",
        sa.Column("id", Serial, autoincrement=True, nullable=False),
        _required("claim_uuid", Uuid),
        _required("node_uuid", Uuid),
        _required("action", Name),
        _required("at", Moment),
        _required("actor", Document),
        _required("request_id", Document),
        sa.Column("before", Document),
        _required("after", Document),
        _required("reason", Document),
        sa.PrimaryKeyConstraint("id", name="pk_claim_events"),
        _node_key("claim_events"),
        **_OPTIONS,
    )
    op.create_index(
        "ix_claim_events_node_uuid_claim_uuid", "claim_events", ["node_uuid", "claim_uuid"]
    )


def _required(name: str, kind: object) -> sa.Column:
    return sa.Column(name, kind, nullable=False)


def _node_key(table: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        ["node_uuid"], ["compute_nodes.uuid"], name=f"fk_{table}_node_uuid"
    )
