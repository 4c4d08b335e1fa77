"""In which order host cells are tried: one policy to a module."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rtagent.numa.order import packed, spread
from rtagent.numa.room import Room


class Order(Protocol):
    """A policy."""

    def ordered(self, rooms: Sequence[Room], pinning: bool) -> list[Room]:
        """The cells, the one to be tried first at the head; equals keep their order.

        :param pinning: the guest has dedicated CPUs.
        """
        ...


def order(packing: bool) -> Order:
    """The policy that ``packing_host_numa_cells_allocation_strategy`` selects."""
    return packed if packing else spread


__all__ = ["Order", "order"]
