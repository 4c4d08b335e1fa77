"""Position: how far a node's record has come."""

from __future__ import annotations

from rtagent.model.base import Value


class Position(Value, frozen=True, kw_only=True):
    """Epoch and revision of a node's record. Both only grow, so a record that has less of either
    than an agent has acknowledged is an older copy.
    """

    epoch: int
    revision: int

    def behind(self, other: Position) -> bool:
        """Return whether epoch or revision is less than the other's."""
        return self.epoch < other.epoch or self.revision < other.revision
