"""The cell with most to spare first: guests spread over the host."""

from __future__ import annotations

from collections.abc import Sequence

from rtagent.numa.room import Room


def ordered(rooms: Sequence[Room], pinning: bool) -> list[Room]:
    """By free CPUs for pinning, or by shared vCPUs there; then by free memory."""
    return sorted(rooms, key=lambda room: tuple(-spare for spare in room.spare(pinning)))
