"""Store assigned resources under the names that the code uses."""

import sqlalchemy as sa
from alembic import context, op
from sqlalchemy.dialects import mysql

revision = "0004"
down_revision = "0003"

_MYSQL = ("mysql", "mariadb")
Document = sa.Text().with_variant(mysql.MEDIUMTEXT(), *_MYSQL)


def upgrade() -> None:
    # Rows of claim_units refer to rows of units by all four columns, and no database updates both
    # at once. So the units are copied first, and the old rows are deleted last.
    op.execute(
        "INSERT INTO units (node_uuid, kind, unit, owner_id)"
        " SELECT node_uuid, 'RESOURCE', unit, owner_id FROM units WHERE kind = 'SPECIFIC'"
    )
    op.execute("UPDATE claim_units SET kind = 'RESOURCE' WHERE kind = 'SPECIFIC'")
    op.execute("DELETE FROM units WHERE kind = 'SPECIFIC'")
    # The key of a JSON object. A string that contains these characters has its quotes escaped.
    op.execute(
        "UPDATE foreign_domains"
        """ SET occupancy = REPLACE(occupancy, '"makers":', '"mdev_parents":')"""
    )
    # A process that still writes the old names gets WriterFenced at its next commit.
    op.execute("UPDATE compute_nodes SET epoch = epoch + 1")
    # Last, because MariaDB commits at each ALTER TABLE. If the connection is lost before alembic
    # records the revision, the upgrade is repeated and finds the column renamed.
    if not _is_renamed():
        op.alter_column(
            "compute_nodes",
            "specific",
            new_column_name="resource_inventories",
            existing_type=Document,
            existing_nullable=True,
        )


def _is_renamed() -> bool:
    if context.is_offline_mode():  # --sql: there is no database to look at
        return False
    columns = sa.inspect(op.get_bind()).get_columns("compute_nodes")
    return any(column["name"] == "resource_inventories" for column in columns)
