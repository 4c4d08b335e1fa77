"""DeletionReason: why the allocations of an instance on a node are deleted."""

from __future__ import annotations

from enum import StrEnum


class DeletionReason(StrEnum):
    """How an instance has left the node for good. The RPC method's name contains the value."""

    EVACUATED = "evacuated"
    MIGRATED = "migrated"
    SHELVE_OFFLOADED = "shelve_offloaded"

    @property
    def method(self) -> str:
        """The RPC method."""
        return f"delete_allocation_for_{self.value}_instance"
