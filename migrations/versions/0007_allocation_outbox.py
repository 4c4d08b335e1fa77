"""Remember whose allocations have to be written to Placement."""

import sqlalchemy as sa
from alembic import context, op
from sqlalchemy.dialects import mysql

revision = "0007"
down_revision = "0006"

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
    # finds the table there.
    if _there():
        return
    op.create_table(
        "allocation_outbox",
        sa.Column("node_uuid", Uuid, nullable=False),
        sa.Column("consumer_uuid", sa.String(255), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("request_id", Document, nullable=False),
        sa.Column("at", sa.DateTime().with_variant(mysql.DATETIME(fsp=6), *_MYSQL), nullable=False),
        sa.Column("row_digest", sa.BigInteger()),
        sa.PrimaryKeyConstraint("node_uuid", "consumer_uuid", name="pk_allocation_outbox"),
        sa.ForeignKeyConstraint(
            ["node_uuid"], ["compute_nodes.uuid"], name="fk_allocation_outbox_node_uuid"
        ),
        **_OPTIONS,
    )


def _there() -> bool:
    if context.is_offline_mode():  # --sql: there is no database to look at
        return False
    return "allocation_outbox" in sa.inspect(op.get_bind()).get_table_names()
