"""Record events for consumers, and how far they were published."""

import sqlalchemy as sa
from alembic import context, op
from sqlalchemy.dialects import mysql

revision = "0011"
down_revision = "0010"

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
    # finds the first table there.
    there = _tables()
    if "event_outbox" not in there:
        op.create_table(
            "event_outbox",
            sa.Column("node_uuid", Uuid, nullable=False),
            sa.Column("sequence", sa.BigInteger(), nullable=False),
            sa.Column("events", sa.Integer(), nullable=False),
            sa.Column("epoch", sa.BigInteger(), nullable=False),
            sa.Column("document", Document, nullable=False),
            sa.Column("row_digest", sa.BigInteger()),
            sa.PrimaryKeyConstraint("node_uuid", "sequence", name="pk_event_outbox"),
            sa.ForeignKeyConstraint(
                ["node_uuid"], ["compute_nodes.uuid"], name="fk_event_outbox_node_uuid"
            ),
            **_OPTIONS,
        )
    if "event_positions" not in there:
        op.create_table(
            "event_positions",
            sa.Column("node_uuid", Uuid, nullable=False),
            sa.Column("sequence", sa.BigInteger(), nullable=False),
            sa.PrimaryKeyConstraint("node_uuid", name="pk_event_positions"),
            sa.ForeignKeyConstraint(
                ["node_uuid"], ["compute_nodes.uuid"], name="fk_event_positions_node_uuid"
            ),
            **_OPTIONS,
        )


def _tables() -> list[str]:
    if context.is_offline_mode():  # --sql: there is no database to look at
        return []
    return sa.inspect(op.get_bind()).get_table_names()
