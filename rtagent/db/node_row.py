"""The row of a node as it was read, by which the rows of other tables are checked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rtagent.db.findings import Findings
from rtagent.db.rosters import keys_of, roster
from rtagent.model.base import Value
from rtagent.model.node import Node
from rtagent.model.stored import Stored


class NodeRow(Value, frozen=True, kw_only=True):
    """The row of a node.

    :ivar has_digests: whether the rows of the node have digests. An upgraded database has none
        until the agent enrolls.
    :ivar rosters: by table; None: unknown.
    :ivar facts: fields of `Stored`.
    """

    node: Node
    revision: int
    epoch: int
    has_digests: bool
    rosters: Mapping[str, int | None]
    facts: Mapping[str, Any]

    def roster_agrees(self, table: str, keys: Iterable[str]) -> bool:
        """Return whether no row of a table is missing, and none is there that should not be."""
        return not self.has_digests or roster(keys) == self.rosters[table]


def check_rosters(row: NodeRow, stored: Stored, findings: Findings) -> None:
    """Check that all rows of the node have been read."""
    for table, keys in keys_of(stored).items():
        if not row.roster_agrees(table, keys):
            findings.add_unknown(f"rows of {table} are missing, or their keys are damaged")
