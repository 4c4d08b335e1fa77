"""The tables, and column types that mean the same in SQLite, PostgreSQL, MariaDB and MySQL.

Quantities are integers in the unit that the column's name states. Documents are JSON.
"""

from collections.abc import Iterator
from typing import Any

import msgspec
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
    String,
    Table,
    Text,
    UniqueConstraint,
)
from sqlalchemy.dialects import mysql

from rtagent.db.utc_date_time import UtcDateTime

_MYSQL = ("mysql", "mariadb")

#: A key that the database generates. SQLite generates keys for INTEGER only.
Serial = BigInteger().with_variant(Integer(), "sqlite")

Uuid = String(36)
Name = String(255)
#: Short, because MariaDB limits the length of a key of this and two names.
Kind = String(32)

#: A JSON document. MariaDB's TEXT is limited to 64 KiB.
Document = Text().with_variant(mysql.MEDIUMTEXT(), *_MYSQL)

_encode = msgspec.json.Encoder().encode


def to_document(value: object) -> str:
    """Return the JSON text of a value for a `Document` column, with sets and mappings sorted."""
    # Two steps: the encoder alone does not sort mappings with integer keys.
    return _encode(msgspec.to_builtins(value, str_keys=True, order="deterministic")).decode()


metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

# MariaDB compares ids byte by byte with this collation, as the other databases do.
_MYSQL_OPTIONS: dict[str, Any] = {
    f"{dialect}_{option}": value
    for dialect in _MYSQL
    for option, value in (
        ("engine", "InnoDB"),
        ("default_charset", "utf8mb4"),
        ("collate", "utf8mb4_bin"),
    )
}


_Part = Column[Any] | Index | UniqueConstraint | ForeignKeyConstraint


def _table(name: str, *parts: _Part) -> Table:
    return Table(name, metadata, *parts, **_MYSQL_OPTIONS)


def _of_node(name: str, *parts: _Part) -> Table:
    """Return a table of which each row is of a node, and has a digest: see `checked_rows`."""
    return _table(name, _node(primary_key=True), *parts, Column("row_digest", BigInteger))


def _node(*, primary_key: bool = False) -> Column[str]:
    key = ForeignKey("compute_nodes.uuid")
    return Column("node_uuid", Uuid, key, nullable=False, primary_key=primary_key)


def _columns(kind: Any, *names: str, nullable: bool = True) -> Iterator[Column[Any]]:
    return (Column(name, kind, nullable=nullable) for name in names)


#: One row: the revision of the schema that the oldest program writes which may still write here.
schema_compatibility = _table(
    "schema_compatibility", Column("oldest_writer", Kind, primary_key=True)
)

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

#: Nova's ComputeNode fields; the columns that make the row the lock of its node (revision, epoch);
#: the writer's identity (``raised_by``: the store that raised the epoch since the writer enrolled);
#: the facts that a restart needs; the policy, for schedulers; whether it drains. The digests are of
#: columns that are written together. A roster is a sum over the node's rows in a table (`ROSTERS`).
compute_nodes = _table(
    "compute_nodes",
    Column("uuid", Uuid, primary_key=True),
    Column("host", Name, nullable=False),
    Column("hypervisor_hostname", Name, nullable=False),
    Column("hypervisor_type", Name),
    Column("hypervisor_version", BigInteger),
    Column("host_ip", Name, nullable=False),
    Column("cpu_info", Document),
    *_columns(BigInteger, "vcpus", "memory_mb", "local_gb"),
    *_columns(BigInteger, "vcpus_used", "memory_mb_used", "local_gb_used"),
    *_columns(BigInteger, "free_ram_mb", "free_disk_gb", "disk_available_least"),
    *_columns(BigInteger, "current_workload", "running_vms"),
    *_columns(Document, "numa_topology", "pci_device_pools", "supported_hv_specs"),
    *_columns(Document, "metrics", "stats"),
    *_columns(Double, "cpu_allocation_ratio", "ram_allocation_ratio", "disk_allocation_ratio"),
    Column("revision", BigInteger, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("writer_machine_id", Name),
    Column("writer_boot_id", Name),
    Column("writer_state_path", Document),
    Column("raised_by", Uuid),
    Column("topology", Document),
    Column("resource_inventories", Document),
    Column("failed_builds", BigInteger, nullable=False),
    *_columns(UtcDateTime, "deleted_at", "rebooted_at"),
    *_columns(BigInteger, "row_digest", "host_digest", "inventories_digest"),
    *_columns(BigInteger, "claims_roster", "devices_roster", "domains_roster", "migrations_roster"),
    Column("policy", Document),
    Column("policy_digest", BigInteger),
    Column("draining", Boolean),
    Index(None, "hypervisor_hostname"),
    Index(None, "host"),
)

#: The row of a released claim stays until it is purged.
claims = _table(
    "claims",
    Column("uuid", Uuid, primary_key=True),
    _node(),
    *_columns(Name, "owner_type", "owner_id", "kind", "state", nullable=False),
    Column("suspect", Document),
    *_columns(BigInteger, "vcpus", "pcpus", "memory_mb", "disk_mb", nullable=False),
    Column("migration_uuid", Uuid),
    Column("created_at", UtcDateTime, nullable=False),
    Column("updated_at", UtcDateTime, nullable=False),
    Column("expires_at", UtcDateTime),
    Column("revision", BigInteger, nullable=False),
    Column("document", Document, nullable=False),
    Column("row_digest", BigInteger),
    Index(None, "node_uuid", "state"),
    Index(None, "owner_id"),
    UniqueConstraint("uuid", "owner_id"),
)

#: Units (host CPUs, PCI devices, assigned resources) that are held, each by one owner.
units = _table(
    "units",
    _node(primary_key=True),
    Column("kind", Kind, primary_key=True),
    Column("unit", Name, primary_key=True),
    Column("owner_id", Name, nullable=False),
    UniqueConstraint("node_uuid", "kind", "unit", "owner_id"),
)

#: The live claims that hold a unit. By the keys, two claims of one owner may hold the same unit,
#: claims of two owners never do, and a unit is not freed while a claim has it.
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

#: Nova's PciDevice fields. The owner and the status of a device are derived from the claims. They
#: are written with each change, for people to read; the agent never reads them back.
pci_devices = _of_node(
    "pci_devices",
    Column("address", Kind, primary_key=True),
    *_columns(Kind, "vendor_id", "product_id", "dev_type", nullable=False),
    Column("dev_id", Name, nullable=False),
    Column("label", Name, nullable=False),
    Column("numa_node", Integer),
    Column("parent_addr", Kind),
    Column("status", Kind, nullable=False),
    Column("instance_uuid", Uuid),
    Column("request_id", Name),
    Column("extra_info", Document, nullable=False),
)

#: Domains without a claim, and domains that differ from their owner's claim.
foreign_domains = _of_node(
    "foreign_domains",
    Column("domain_uuid", Uuid, primary_key=True),
    Column("name", Document, nullable=False),
    Column("active", Boolean, nullable=False),
    Column("vcpus", BigInteger, nullable=False),
    Column("memory_mb", BigInteger, nullable=False),
    Column("occupancy", Document, nullable=False),
)

#: Each side of a move has its own row, which only the agent of that side writes.
migrations = _table(
    "migrations",
    Column("uuid", Uuid, primary_key=True),
    _node(primary_key=True),
    Column("role", Kind, nullable=False),
    Column("instance_uuid", Uuid, nullable=False),
    Column("migration_type", Kind, nullable=False),
    Column("status", Name, nullable=False),
    Column("claim_uuid", Uuid),
    *_columns(Name, "source_compute", "source_node", "dest_compute", "dest_node", "dest_host"),
    Column("old_flavor", Document),
    Column("new_flavor", Document),
    Column("created_at", UtcDateTime, nullable=False),
    Column("updated_at", UtcDateTime, nullable=False),
    Column("row_digest", BigInteger),
    Index(None, "node_uuid"),
)

operations = _of_node(
    "operations",
    Column("operation_id", Name, primary_key=True),
    Column("digest", Name, nullable=False),
    Column("method", Name, nullable=False),
    Column("claim_uuid", Uuid),
    Column("ended", Boolean, nullable=False),
    Column("at", UtcDateTime, nullable=False),
    Column("revision", BigInteger),
)

#: The ages of a node's records, see `rtagent.model.stored`.
retention = _of_node("retention", Column("document", Document, nullable=False))

drains = _of_node("drains", Column("document", Document, nullable=False))

#: Consumers whose allocations have to be written to Placement, see `rtagent.model.consumers`.
allocation_outbox = _of_node(
    "allocation_outbox",
    Column("consumer_uuid", Name, primary_key=True),
    Column("revision", BigInteger, nullable=False),
    Column("request_id", Document, nullable=False),
    Column("at", UtcDateTime, nullable=False),
)

#: The events of commits, see `rtagent.db.event_rows`. ``sequence`` is the number of the last event
#: of a row, ``events`` their number, and ``document`` a JSON array of them.
event_outbox = _of_node(
    "event_outbox",
    Column("sequence", BigInteger, primary_key=True, autoincrement=False),
    Column("events", Integer, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("document", Document, nullable=False),
)

#: The number of the last event that was published as a notification.
event_positions = _table(
    "event_positions",
    _node(primary_key=True),
    Column("sequence", BigInteger, nullable=False),
)

#: Host aggregates. The host of a row need not have an agent yet.
aggregates = _table(
    "aggregates",
    Column("uuid", Uuid, primary_key=True),
    Column("name", Name, nullable=False, unique=True),
)

aggregate_hosts = _table(
    "aggregate_hosts",
    Column("aggregate_uuid", Uuid, ForeignKey("aggregates.uuid"), primary_key=True),
    Column("host", Name, primary_key=True),
)

aggregate_metadata = _table(
    "aggregate_metadata",
    Column("aggregate_uuid", Uuid, ForeignKey("aggregates.uuid"), primary_key=True),
    Column("key", Name, primary_key=True),
    Column("value", Document, nullable=False),
)

#: The uuids of deleted aggregates, by which they are recognised in Placement.
deleted_aggregates = _table(
    "deleted_aggregates",
    Column("uuid", Uuid, primary_key=True),
    Column("at", UtcDateTime, nullable=False),
)

#: The hosts whose keys have reported a node first, of nodes that have no row in ``compute_nodes``:
#: see `rtagent.db.host_records`.
node_hosts = _table(
    "node_hosts",
    Column("node_uuid", Uuid, primary_key=True),
    Column("host", Name, nullable=False),
    Column("recorded_at", UtcDateTime, nullable=False),
)

#: Servers of a conductor. The document is a `rtagent.model.server.Server`; the other columns are
#: what is searched, and what an operator reads.
servers = _table(
    "servers",
    Column("uuid", Uuid, primary_key=True),
    Column("name", Name, nullable=False),
    Column("vm_state", Kind, nullable=False),
    Column("host", Name),
    Column("operation_uuid", Uuid),
    Column("created_at", UtcDateTime, nullable=False),
    Column("document", Document, nullable=False),
)

#: Operations on servers. ``owner``, ``epoch`` and ``beat`` say which conductor works on one.
server_operations = _table(
    "server_operations",
    Column("uuid", Uuid, primary_key=True),
    Column("server_uuid", Uuid, nullable=False),
    Column("kind", Kind, nullable=False),
    Column("state", Kind, nullable=False),
    Column("owner", Uuid),
    Column("epoch", BigInteger, nullable=False),
    Column("beat", BigInteger, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("document", Document, nullable=False),
    Index(None, "server_uuid"),
    Index(None, "state"),
)

#: Rows are only appended. They outlive the claims that they describe.
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
