"""Rosters: sums in a node's row by which a missing row of another table is noticed.

Each row adds a number that its key determines. A commit adds and subtracts the numbers of the rows
that appear and disappear, so it need not know the sum.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rtagent.db.checked_rows import number_of
from rtagent.model.stored import Stored

#: The column of ``compute_nodes`` that has the sum, by table.
ROSTERS: Mapping[str, str] = {
    "claims": "claims_roster",
    "pci_devices": "devices_roster",
    "foreign_domains": "domains_roster",
    "migrations": "migrations_roster",
}

#: Small enough that the sum over millions of rows fits a 64-bit column.
_BYTES = 5


def roster(keys: Iterable[str]) -> int:
    """Return the sum over the rows with these keys."""
    return sum(number_of(key.encode("utf-8", "surrogatepass"), _BYTES) for key in keys)


def keys_of(stored: Stored) -> dict[str, list[str]]:
    """Return the keys of a node's rows, by table."""
    return {
        "claims": [claim.uuid for claim in stored.claims],
        "pci_devices": [device.address for device in stored.devices],
        "foreign_domains": [usage.domain_uuid for usage in stored.domain_usages],
        "migrations": [migration.uuid for migration in stored.migrations],
    }
