"""Departure: how an instance has left a node for good."""

from __future__ import annotations

from enum import StrEnum


class Departure(StrEnum):
    """How an instance has left. The value is part of the name of the RPC method."""

    EVACUATED = "evacuated"
    MIGRATED = "migrated"
    SHELVE_OFFLOADED = "shelve_offloaded"

    @property
    def method(self) -> str:
        """The RPC method."""
        return f"delete_allocation_for_{self.value}_instance"
