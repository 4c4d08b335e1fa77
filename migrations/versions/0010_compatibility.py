"""Record the oldest program that may still write."""

import sqlalchemy as sa
from alembic import context, op

revision = "0010"
down_revision = "0009"

_OPTIONS = {
    f"{dialect}_{option}": value
    for dialect in ("mysql", "mariadb")
    for option, value in (
        ("engine", "InnoDB"),
        ("default_charset", "utf8mb4"),
        ("collate", "utf8mb4_bin"),
    )
}


def upgrade() -> None:
    # MariaDB commits at each statement. If the connection is lost, the upgrade is repeated and
    # finds the table there. Its row is written after all migrations, see `rtagent.db.migrate`.
    if _there():
        return
    op.create_table(
        "schema_compatibility",
        sa.Column("oldest_writer", sa.String(32), nullable=False),
        sa.PrimaryKeyConstraint("oldest_writer", name="pk_schema_compatibility"),
        **_OPTIONS,
    )


def _there() -> bool:
    if context.is_offline_mode():  # --sql: there is no database to look at
        return False
    return bool(sa.inspect(op.get_bind()).has_table("schema_compatibility"))
