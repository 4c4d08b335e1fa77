"""Record the hosts of nodes that schedulers know from reports only."""

import sqlalchemy as sa
from alembic import context, op
from sqlalchemy.dialects import mysql

revision = "0014"
down_revision = "0013"

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

UtcDateTime = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), *_MYSQL)


def upgrade() -> None:
    # MariaDB commits at each statement. If the connection is lost, the upgrade is repeated.
    if not _is_there():
        op.create_table(
            "node_hosts",
            sa.Column("node_uuid", sa.String(36), nullable=False),
            sa.Column("host", sa.String(255), nullable=False),
            sa.Column("recorded_at", UtcDateTime, nullable=False),
            sa.PrimaryKeyConstraint("node_uuid", name="pk_node_hosts"),
            **_OPTIONS,
        )


def _is_there() -> bool:
    if context.is_offline_mode():  # --sql: there is no database to look at
        return False
    return sa.inspect(op.get_bind()).has_table("node_hosts")
