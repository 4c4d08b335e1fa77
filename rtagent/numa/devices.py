"""What couples a guest's cells to each other: devices that must be near enough to them."""

from __future__ import annotations

from typing import Protocol

from rtagent.model.decision import Reason


class Devices(Protocol):
    """The devices that one guest asks for (it may ask for none), on one host. Pure."""

    def weight(self, cell: int) -> int:
        """Host cells of a low weight are tried before those of a higher one: those that have what
        is asked for; for a guest that asks for nothing, those that have nothing."""
        ...

    def possible(self, cells: frozenset[int]) -> bool:
        """Whether a guest on these host cells, or on some of them, may get its devices. Must be
        true of every set that holds one of which it is true."""
        ...

    def refusal(self, cells: tuple[int, ...]) -> tuple[Reason, ...]:
        """Why a guest whose cells are on these host cells, in turn, cannot have its devices; empty
        when it can."""
        ...
