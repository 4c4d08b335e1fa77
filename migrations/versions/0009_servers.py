"""Store the servers of a conductor, and the operations on them."""

from typing import Any

import sqlalchemy as sa
from alembic import context, op
from sqlalchemy.dialects import mysql

revision = "0009"
down_revision = "0008"

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
UtcDateTime = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), *_MYSQL)


def upgrade() -> None:
    _create(
        "servers",
        sa.Column("uuid", Uuid, nullable=False),
        sa.Column("name", Name, nullable=False),
        sa.Column("vm_state", Kind, nullable=False),
        sa.Column("host", Name),
        sa.Column("operation_uuid", Uuid),
        sa.Column("created_at", UtcDateTime, nullable=False),
        sa.Column("document", Document, nullable=False),
        sa.PrimaryKeyConstraint("uuid", name="pk_servers"),
    )
    _create(
        "server_operations",
        sa.Column("uuid", Uuid, nullable=False),
        sa.Column("server_uuid", Uuid, nullable=False),
        sa.Column("kind", Kind, nullable=False),
        sa.Column("state", Kind, nullable=False),
        sa.Column("owner", Uuid),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("beat", sa.BigInteger(), nullable=False),
        sa.Column("created_at", UtcDateTime, nullable=False),
        sa.Column("document", Document, nullable=False),
        sa.PrimaryKeyConstraint("uuid", name="pk_server_operations"),
    )
    for column in ("server_uuid", "state"):
        name = f"ix_server_operations_{column}"
        if name not in _indexes("server_operations"):
            op.create_index(name, "server_operations", [column])


def _create(table: str, *parts: Any) -> None:
    # MariaDB commits at each statement. If the connection is lost, the upgrade is repeated and
    # finds some of the tables there.
    if context.is_offline_mode() or not sa.inspect(op.get_bind()).has_table(table):
        op.create_table(table, *parts, **_OPTIONS)


def _indexes(table: str) -> list[str | None]:
    if context.is_offline_mode():  # --sql: there is no database to look at
        return []
    return [index["name"] for index in sa.inspect(op.get_bind()).get_indexes(table)]
