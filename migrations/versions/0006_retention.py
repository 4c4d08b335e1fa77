"""Count the age of records by revisions and running time, not by the clock."""

import sqlalchemy as sa
from alembic import context, op
from sqlalchemy.dialects import mysql

revision = "0006"
down_revision = "0005"

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


def upgrade() -> None:
    # MariaDB commits at each statement. If the connection is lost, the upgrade is repeated and
    # finds some of them done.
    tables, columns = _there()
    if "retention" not in tables:
        op.create_table(
            "retention",
            sa.Column("node_uuid", Uuid, nullable=False),
            sa.Column("document", Document, nullable=False),
            sa.Column("row_digest", sa.BigInteger()),
            sa.PrimaryKeyConstraint("node_uuid", name="pk_retention"),
            sa.ForeignKeyConstraint(
                ["node_uuid"], ["compute_nodes.uuid"], name="fk_retention_node_uuid"
            ),
            **_OPTIONS,
        )
    # The revisions of earlier operations are not known: NULL is older than every revision.
    if "revision" not in columns:
        op.add_column("operations", sa.Column("revision", sa.BigInteger()))


def _there() -> tuple[list[str], list[str]]:
    if context.is_offline_mode():  # --sql: there is no database to look at
        return [], []
    inspector = sa.inspect(op.get_bind())
    columns = [column["name"] for column in inspector.get_columns("operations")]
    return inspector.get_table_names(), columns
