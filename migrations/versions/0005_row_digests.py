"""Add digests of rows, by which the agent notices damage."""

import sqlalchemy as sa
from alembic import context, op

revision = "0005"
down_revision = "0004"

_COLUMNS = (
    ("compute_nodes", "row_digest"),
    ("compute_nodes", "host_digest"),
    ("compute_nodes", "inventories_digest"),
    ("compute_nodes", "claims_roster"),
    ("compute_nodes", "devices_roster"),
    ("compute_nodes", "domains_roster"),
    ("compute_nodes", "migrations_roster"),
    ("claims", "row_digest"),
    ("pci_devices", "row_digest"),
    ("foreign_domains", "row_digest"),
    ("migrations", "row_digest"),
    ("operations", "row_digest"),
)


def upgrade() -> None:
    # A process that still writes without digests gets WriterFenced at its next commit.
    op.execute("UPDATE compute_nodes SET epoch = epoch + 1")
    # The digests stay NULL here, so that a script can do the same (--sql). The agent fills in all
    # digests of its node when it enrolls, in one transaction.
    for table, column in _COLUMNS:
        # MariaDB commits at each ALTER TABLE. If the connection is lost, the upgrade is repeated
        # and finds some of the columns.
        if not _has(table, column):
            op.add_column(table, sa.Column(column, sa.BigInteger()))


def _has(table: str, column: str) -> bool:
    if context.is_offline_mode():  # --sql: there is no database to look at
        return False
    return any(each["name"] == column for each in sa.inspect(op.get_bind()).get_columns(table))
