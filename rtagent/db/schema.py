"""The tables. Amounts are integers in the unit that the column's name says; documents are JSON."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    MetaData,
    Table,
    UniqueConstraint,
)

from rtagent.db.types import Document, Kind, Name, Serial, UtcDateTime, Uuid

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

# Ids are compared byte by byte, as the other databases do.
_MYSQL_OPTIONS: dict[str, Any] = {
    f"{dialect}_{option}": value
    for dialect in ("mysql", "mariadb")
    for option, value in (
        ("engine", "InnoDB"),
        ("default_charset", "utf8mb4"),
        ("collate", "utf8mb4_bin"),
    )
}


_Part = Column[Any] | Index | UniqueConstraint | ForeignKeyConstraint


def _table(name: str, *parts: _Part) -> Table:
    return Table(name, metadata, *parts, **_MYSQL_OPTIONS)


def _node() -> Column[str]:
    return Column("node_uuid", Uuid, ForeignKey("compute_nodes.uuid"), nullable=False)


services = _table(
    "services",
    Column("host", Name, primary_key=True),
    Column("binary", Name, primary_key=True),
    Column("report_count", BigInteger, nullable=False),
    Column("last_seen_up", UtcDateTime),
    Column("disabled", Boolean, nullable=False),
    Column("disabled_reason", Document),
    Column("forced_down", Boolean, nullable=False),
    Column("version", Integer, nullable=False),
)

#: Nova's ComputeNode fields; then what makes the row the lock of its node (revision, epoch), who
#: writes it (``raised_by``: the store that raised the epoch since the writer enrolled), and what a
#: restart needs.
compute_nodes = _table(
    "compute_nodes",
    Column("uuid", Uuid, primary_key=True),
    Column("host", Name, nullable=False),
    Column("hypervisor_hostname", Name, nullable=False),
    Column("hypervisor_type", Name),
    Column("hypervisor_version", BigInteger),
    Column("host_ip", Name, nullable=False),
    Column("cpu_info", Document),
    Column("vcpus", BigInteger),
    Column("memory_mb", BigInteger),
    Column("local_gb", BigInteger),
    Column("vcpus_used", BigInteger),
    Column("memory_mb_used", BigInteger),
    Column("local_gb_used", BigInteger),
    Column("free_ram_mb", BigInteger),
    Column("free_disk_gb", BigInteger),
    Column("disk_available_least", BigInteger),
    Column("current_workload", BigInteger),
    Column("running_vms", BigInteger),
    Column("numa_topology", Document),
    Column("pci_device_pools", Document),
    Column("supported_hv_specs", Document),
    Column("metrics", Document),
    Column("stats", Document),
    Column("cpu_allocation_ratio", Double),
    Column("ram_allocation_ratio", Double),
    Column("disk_allocation_ratio", Double),
    Column("revision", BigInteger, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("writer_machine_id", Name),
    Column("writer_boot_id", Name),
    Column("writer_state_path", Document),
    Column("raised_by", Uuid),
    Column("topology", Document),
    Column("specific", Document),
    Column("failed_builds", BigInteger, nullable=False),
    Column("deleted_at", UtcDateTime),
    Index(None, "hypervisor_hostname"),
    Index(None, "host"),
)

#: A released claim keeps its row until it is purged.
claims = _table(
    "claims",
    Column("uuid", Uuid, primary_key=True),
    _node(),
    Column("owner_type", Name, nullable=False),
    Column("owner_id", Name, nullable=False),
    Column("kind", Name, nullable=False),
    Column("state", Name, nullable=False),
    Column("suspect", Document),
    Column("vcpus", BigInteger, nullable=False),
    Column("pcpus", BigInteger, nullable=False),
    Column("memory_mb", BigInteger, nullable=False),
    Column("disk_mb", BigInteger, nullable=False),
    Column("migration_uuid", Uuid),
    Column("created_at", UtcDateTime, nullable=False),
    Column("updated_at", UtcDateTime, nullable=False),
    Column("expires_at", UtcDateTime),
    Column("revision", BigInteger, nullable=False),
    Column("document", Document, nullable=False),
    Index(None, "node_uuid", "state"),
    Index(None, "owner_id"),
    UniqueConstraint("uuid", "owner_id"),
)

#: Concrete things (host CPUs) that are held, each by one owner.
units = _table(
    "units",
    Column("node_uuid", Uuid, ForeignKey("compute_nodes.uuid"), primary_key=True),
    Column("kind", Kind, primary_key=True),
    Column("unit", Name, primary_key=True),
    Column("owner_id", Name, nullable=False),
    UniqueConstraint("node_uuid", "kind", "unit", "owner_id"),
)

#: Which live claims of the owner hold a unit. The keys see to it that two claims of one owner may,
#: that claims of two owners never do, and that a unit is not freed while one does.
claim_units = _table(
    "claim_units",
    Column("claim_uuid", Uuid, primary_key=True),
    Column("node_uuid", Uuid, nullable=False),
    Column("kind", Kind, primary_key=True),
    Column("unit", Name, primary_key=True),
    Column("owner_id", Name, nullable=False),
    ForeignKeyConstraint(
        ["node_uuid", "kind", "unit", "owner_id"],
        ["units.node_uuid", "units.kind", "units.unit", "units.owner_id"],
    ),
    ForeignKeyConstraint(["claim_uuid", "owner_id"], ["claims.uuid", "claims.owner_id"]),
    Index(None, "node_uuid", "kind", "unit", "owner_id"),
)

#: Nova's PciDevice fields. Who holds a device, and its status, are derived from the claims: here
#: they are to be looked at, written with whatever moves them, and never read back.
pci_devices = _table(
    "pci_devices",
    Column("node_uuid", Uuid, ForeignKey("compute_nodes.uuid"), primary_key=True),
    Column("address", Kind, primary_key=True),
    Column("vendor_id", Kind, nullable=False),
    Column("product_id", Kind, nullable=False),
    Column("dev_type", Kind, nullable=False),
    Column("dev_id", Name, nullable=False),
    Column("label", Name, nullable=False),
    Column("numa_node", Integer),
    Column("parent_addr", Kind),
    Column("status", Kind, nullable=False),
    Column("instance_uuid", Uuid),
    Column("request_id", Name),
    Column("extra_info", Document, nullable=False),
)

#: Domains that no claim accounts for, or that differ from their owner's claim.
foreign_domains = _table(
    "foreign_domains",
    Column("node_uuid", Uuid, ForeignKey("compute_nodes.uuid"), primary_key=True),
    Column("domain_uuid", Uuid, primary_key=True),
    Column("name", Document, nullable=False),
    Column("active", Boolean, nullable=False),
    Column("vcpus", BigInteger, nullable=False),
    Column("memory_mb", BigInteger, nullable=False),
    Column("occupancy", Document, nullable=False),
)

#: Each side of a move has a row of its own, which its own agent alone writes.
migrations = _table(
    "migrations",
    Column("uuid", Uuid, primary_key=True),
    Column("node_uuid", Uuid, ForeignKey("compute_nodes.uuid"), primary_key=True),
    Column("role", Kind, nullable=False),
    Column("instance_uuid", Uuid, nullable=False),
    Column("migration_type", Kind, nullable=False),
    Column("status", Name, nullable=False),
    Column("claim_uuid", Uuid),
    Column("source_compute", Name),
    Column("source_node", Name),
    Column("dest_compute", Name),
    Column("dest_node", Name),
    Column("dest_host", Name),
    Column("old_flavor", Document),
    Column("new_flavor", Document),
    Column("created_at", UtcDateTime, nullable=False),
    Column("updated_at", UtcDateTime, nullable=False),
    Index(None, "node_uuid"),
)

operations = _table(
    "operations",
    Column("node_uuid", Uuid, ForeignKey("compute_nodes.uuid"), primary_key=True),
    Column("operation_id", Name, primary_key=True),
    Column("digest", Name, nullable=False),
    Column("method", Name, nullable=False),
    Column("claim_uuid", Uuid),
    Column("ended", Boolean, nullable=False),
    Column("at", UtcDateTime, nullable=False),
)

#: Only ever appended to. It outlives the claims that it speaks of.
claim_events = _table(
    "claim_events",
    Column("id", Serial, primary_key=True),
    Column("claim_uuid", Uuid, nullable=False),
    _node(),
    Column("action", Name, nullable=False),
    Column("at", UtcDateTime, nullable=False),
    Column("actor", Document, nullable=False),
    Column("request_id", Document, nullable=False),
    Column("before", Document),
    Column("after", Document, nullable=False),
    Column("reason", Document, nullable=False),
    Index(None, "node_uuid", "claim_uuid"),
)
