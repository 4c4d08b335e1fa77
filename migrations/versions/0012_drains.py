"""Record which nodes drain, and when their host was rebooted."""

import sqlalchemy as sa
from alembic import context, op
from sqlalchemy.dialects import mysql

revision = "0012"
down_revision = "0011"

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
Document = sa.Text().with_variant(mysql.MEDIUMTEXT(), *_MYSQL)
UtcDateTime = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), *_MYSQL)


def upgrade() -> None:
    # MariaDB commits at each statement. If the connection is lost, the upgrade is repeated and
    # finds some of them done.
    tables, columns = _there()
    if "drains" not in tables:
        op.create_table(
            "drains",
            sa.Column("node_uuid", Uuid, nullable=False),
            sa.Column("document", Document, nullable=False),
            sa.Column("row_digest", sa.BigInteger()),
            sa.PrimaryKeyConstraint("node_uuid", name="pk_drains"),
            sa.ForeignKeyConstraint(
                ["node_uuid"], ["compute_nodes.uuid"], name="fk_drains_node_uuid"
            ),
            **_OPTIONS,
        )
    if "rebooted_at" not in columns:
        op.add_column("compute_nodes", sa.Column("rebooted_at", UtcDateTime))


def _there() -> tuple[list[str], list[str]]:
    if context.is_offline_mode():  # --sql: there is no database to look at
        return [], []
    inspector = sa.inspect(op.get_bind())
    columns = [column["name"] for column in inspector.get_columns("compute_nodes")]
    return inspector.get_table_names(), columns
