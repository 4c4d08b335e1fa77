"""Add migrations: a record for each side of a move."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0003"
down_revision = "0002"

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


def upgrade() -> None:
    op.create_table(
        "migrations",
        sa.Column("uuid", Uuid, nullable=False),
        sa.Column("node_uuid", Uuid, nullable=False),
        sa.Column("role", Kind, nullable=False),
        sa.Column("instance_uuid", Uuid, nullable=False),
        sa.Column("migration_type", Kind, nullable=False),
        sa.Column("status", Name, nullable=False),
        sa.Column("claim_uuid", Uuid),
        sa.Column("source_compute", Name),
        sa.Column("source_node", Name),
        sa.Column("dest_compute", Name),
        sa.Column("dest_node", Name),
        sa.Column("dest_host", Name),
        sa.Column("old_flavor", Document),
        sa.Column("new_flavor", Document),
        sa.Column("created_at", Moment, nullable=False),
        sa.Column("updated_at", Moment, nullable=False),
        sa.PrimaryKeyConstraint("uuid", "node_uuid", name="pk_migrations"),
        sa.ForeignKeyConstraint(
            ["node_uuid"], ["compute_nodes.uuid"], name="fk_migrations_node_uuid"
        ),
        **_OPTIONS,
    )
    op.create_index("ix_migrations_node_uuid", "migrations", ["node_uuid"])
    op.create_index("ix_claims_owner_id", "claims", ["owner_id"])
