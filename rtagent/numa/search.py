"""Which host cell each guest cell goes to.

Without devices, which couple the cells, this is a matching of guest cells to host cells, and no
step is taken back: before a guest cell is given a host cell, the rest is known to be matchable.
With devices the same walk goes on past placements that they refuse, and leaves out what they rule
out.
"""

from __future__ import annotations

from collections.abc import Sequence

from rtagent.numa.devices import Devices

#: Steps (guest cells given a host cell, one way or another) after which a search gives up.
STEPS = 2000


class Search:
    """The first placement, in the order of preference, that does.

    :param rows: for each guest cell the host cells on which it fits, the preferred one first.
    :ivar gave_up: the steps ran out, so that nothing is known of placements not tried.
    """

    def __init__(
        self, rows: Sequence[Sequence[int]], devices: Devices | None = None, steps: int = STEPS
    ) -> None:
        self._rows, self._devices, self._left = rows, devices, steps
        self._open = [frozenset[int]().union(*rows[place:]) for place in range(len(rows) + 1)]
        self._dead: set[frozenset[int]] = set()
        self._possible: dict[frozenset[int], bool] = {}
        self._completes: dict[tuple[int, frozenset[int]], bool] = {}
        self._refused_in_order = 0
        self.gave_up = False

    def placement(self) -> tuple[int, ...] | None:
        """A host cell for each guest cell; None: there is none, or the search gave up."""
        return self._onward(()) if self._completable(0, frozenset()) else None

    def _onward(self, chosen: tuple[int, ...]) -> tuple[int, ...] | None:
        used = frozenset(chosen)
        if used in self._dead or self._over() or not self._may_do(used | self._open[len(chosen)]):
            return None
        if len(chosen) == len(self._rows):
            return chosen if self._accepted(chosen) else None
        refused = self._refused_in_order
        for cell in self._rows[len(chosen)]:
            if cell not in used and self._completable(len(chosen) + 1, used | {cell}):
                found = self._onward((*chosen, cell))
                if found is not None:
                    return found
        if refused == self._refused_in_order and not self.gave_up:
            # No order of these cells was to blame: whichever way they come together, it ends here.
            self._dead.add(used)
        return None

    def _over(self) -> bool:
        self.gave_up = self.gave_up or self._left == 0
        self._left -= 1
        return self.gave_up

    def _may_do(self, cells: frozenset[int]) -> bool:
        if self._devices is None:
            return True
        if cells not in self._possible:
            self._possible[cells] = self._devices.possible(cells)
        return self._possible[cells]

    def _accepted(self, chosen: tuple[int, ...]) -> bool:
        if self._devices is None or not self._devices.refusal(chosen):
            return True
        self._refused_in_order += 1
        return False

    def _completable(self, place: int, used: frozenset[int]) -> bool:
        key = (place, used)
        if key not in self._completes:
            rest = [[cell for cell in row if cell not in used] for row in self._rows[place:]]
            self._completes[key] = not deficient(rest)
        return self._completes[key]


def deficient(rows: Sequence[Sequence[int]]) -> frozenset[int]:
    """Rows (by their place) that have, all together, fewer cells to go to than they are; empty when
    each row can have a cell of its own."""
    owner: dict[int, int] = {}
    for place in range(len(rows)):
        seen: set[int] = set()
        if not _augment(rows, place, owner, seen):
            return frozenset({place, *(owner[cell] for cell in seen)})
    return frozenset()


def _augment(
    rows: Sequence[Sequence[int]], place: int, owner: dict[int, int], seen: set[int]
) -> bool:
    """Give a row a cell, others making way where they can."""
    for cell in rows[place]:
        if cell not in seen:
            seen.add(cell)
            if cell not in owner or _augment(rows, owner[cell], owner, seen):
                owner[cell] = place
                return True
    return False
