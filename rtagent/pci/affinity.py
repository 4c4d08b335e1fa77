"""How near to its guest's NUMA cells a device must be: one rule for each policy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from rtagent.model.base import Value

#: How well a device is placed, best first: on a cell of the guest's; on a cell of the same socket,
#: or on no cell that it would know; elsewhere.
NEAR: Final = 0
BESIDE: Final = 1
FAR: Final = 2


class Place(Value, frozen=True):
    """Where a guest would be.

    :ivar cells: of the host, all that the guest is on.
    :ivar sockets: of every cell of the host, by its id; a cell may span some or know of none.
    """

    cells: frozenset[int]
    sockets: Mapping[int, frozenset[int]]

    def shares_socket(self, node: int) -> bool:
        """Whether a node is in one socket with a cell of the guest's."""
        theirs = self.sockets.get(node, frozenset())
        return any(theirs & self.sockets.get(cell, frozenset()) for cell in self.cells)


def required(node: int | None, place: Place) -> int | None:
    """On a cell of the guest's."""
    return NEAR if node in place.cells else None


def legacy(node: int | None, place: Place) -> int | None:
    """As `required`, for a device that knows its node."""
    return BESIDE if node is None else required(node, place)


def preferred(node: int | None, place: Place) -> int | None:
    """Anywhere; near if possible."""
    found = legacy(node, place)
    return FAR if found is None else found


def socket(node: int | None, place: Place) -> int | None:
    """In a socket of the guest's."""
    near = required(node, place)
    if near is None and node is not None and place.shares_socket(node):
        return BESIDE
    return near


#: By the value that selects it: how well a device on that node is placed; None: it will not do.
POLICIES: Final[Mapping[str, Callable[[int | None, Place], int | None]]] = {
    "required": required,
    "legacy": legacy,
    "preferred": preferred,
    "socket": socket,
}
