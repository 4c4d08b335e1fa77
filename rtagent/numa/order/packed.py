"""The cell with least to spare first: cells fill up one after the other."""

from __future__ import annotations

from collections.abc import Sequence

from rtagent.numa.room import Room


def ordered(rooms: Sequence[Room], pinning: bool) -> list[Room]:
    """By free CPUs for pinning, or by shared vCPUs there; then by free memory."""
    return sorted(rooms, key=lambda room: room.spare(pinning))
