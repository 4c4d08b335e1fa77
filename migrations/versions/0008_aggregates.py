"""Store host aggregates, and the policy of each node for schedulers."""

from typing import Any

import sqlalchemy as sa
from alembic import context, op
from sqlalchemy.dialects import mysql

revision = "0008"
down_revision = "0007"

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
Document = sa.Text().with_variant(mysql.MEDIUMTEXT(), *_MYSQL)
UtcDateTime = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), *_MYSQL)


def upgrade() -> None:
    _create(
        "aggregates",
        sa.Column("uuid", Uuid, nullable=False),
        sa.Column("name", Name, nullable=False),
        sa.PrimaryKeyConstraint("uuid", name="pk_aggregates"),
        sa.UniqueConstraint("name", name="uq_aggregates_name"),
    )
    _create(
        "aggregate_hosts",
        sa.Column("aggregate_uuid", Uuid, nullable=False),
        sa.Column("host", Name, nullable=False),
        sa.PrimaryKeyConstraint("aggregate_uuid", "host", name="pk_aggregate_hosts"),
        sa.ForeignKeyConstraint(
            ["aggregate_uuid"], ["aggregates.uuid"], name="fk_aggregate_hosts_aggregate_uuid"
        ),
    )
    _create(
        "aggregate_metadata",
        sa.Column("aggregate_uuid", Uuid, nullable=False),
        sa.Column("key", Name, nullable=False),
        sa.Column("value", Document, nullable=False),
        sa.PrimaryKeyConstraint("aggregate_uuid", "key", name="pk_aggregate_metadata"),
        sa.ForeignKeyConstraint(
            ["aggregate_uuid"], ["aggregates.uuid"], name="fk_aggregate_metadata_aggregate_uuid"
        ),
    )
    _create(
        "deleted_aggregates",
        sa.Column("uuid", Uuid, nullable=False),
        sa.Column("at", UtcDateTime, nullable=False),
        sa.PrimaryKeyConstraint("uuid", name="pk_deleted_aggregates"),
    )
    # NULL until the agent starts: its schedulers wait for its first report.
    for column in (sa.Column("policy", Document), sa.Column("policy_digest", sa.BigInteger())):
        if column.name not in _columns("compute_nodes"):
            op.add_column("compute_nodes", column)


def _create(table: str, *parts: Any) -> None:
    # MariaDB commits at each statement. If the connection is lost, the upgrade is repeated and
    # finds some of the tables there.
    if not _columns(table):
        op.create_table(table, *parts, **_OPTIONS)


def _columns(table: str) -> list[str]:
    if context.is_offline_mode():  # --sql: there is no database to look at
        return []
    inspector = sa.inspect(op.get_bind())
    if not inspector.has_table(table):
        return []
    return [column["name"] for column in inspector.get_columns(table)]
