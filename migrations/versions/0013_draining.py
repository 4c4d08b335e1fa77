"""Record with each node whether it drains."""

import sqlalchemy as sa
from alembic import context, op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    # MariaDB commits at each statement. If the connection is lost, the upgrade is repeated.
    if not _is_there():
        op.add_column("compute_nodes", sa.Column("draining", sa.Boolean()))


def _is_there() -> bool:
    if context.is_offline_mode():  # --sql: there is no database to look at
        return False
    columns = sa.inspect(op.get_bind()).get_columns("compute_nodes")
    return any(column["name"] == "draining" for column in columns)
