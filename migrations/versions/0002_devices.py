"""Add PCI devices and inventories of assignable resources."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0002"
down_revision = "0001"

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


def upgrade() -> None:
    op.add_column("compute_nodes", sa.Column("specific", Document))
    op.create_table(
        "pci_devices",
        sa.Column("node_uuid", Uuid, nullable=False),
        sa.Column("address", Kind, nullable=False),
        sa.Column("vendor_id", Kind, nullable=False),
        sa.Column("product_id", Kind, nullable=False),
        sa.Column("dev_type", Kind, nullable=False),
        sa.Column("dev_id", Name, nullable=False),
        sa.Column("label", Name, nullable=False),
        sa.Column("numa_node", sa.Integer),
        sa.Column("parent_addr", Kind),
        sa.Column("status", Kind, nullable=False),
        sa.Column("instance_uuid", Uuid),
        sa.Column("request_id", Name),
        sa.Column("extra_info", Document, nullable=False),
        sa.PrimaryKeyConstraint("node_uuid", "address", name="pk_pci_devices"),
        sa.ForeignKeyConstraint(
            ["node_uuid"], ["compute_nodes.uuid"], name="fk_pci_devices_node_uuid"
        ),
        **_OPTIONS,
    )
