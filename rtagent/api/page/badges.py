"""Badges: the colour, pattern and code by which the pages show an owner."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from functools import cache

from rtagent.model.base import Value

#: Hues and patterns of ``page.css``: the classes h0, h1, ... and p0, p1, ...
HUES, PATTERNS = 10, 4
#: The letters of the hues. I is left out, because it resembles 1.
LETTERS = "ABCDEFGHJK"
#: Steps from one hue to that of the next owner, so that neighbours differ clearly.
_STEP = 3


class Badge(Value, frozen=True, kw_only=True):
    """A colour, a pattern and a code.

    :ivar code: a letter for the hue, and a number if several owners have it: ``C``, ``C2``.
    :ivar style: the classes of hue and pattern.
    """

    code: str
    style: str


@cache
def badge(number: int) -> Badge:
    """Return one of endlessly many badges, by its number from 0."""
    again, hue = number // HUES, number * _STEP % HUES
    return Badge(
        code=LETTERS[hue] + (str(again + 1) if again else ""),
        style=f"badge h{hue} p{again % PATTERNS}",
    )


class Badges:
    """The badges of the owners. An owner keeps its badge as long as it is known. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers: dict[str, int] = {}

    def of(self, owners: Iterable[str]) -> Mapping[str, Badge]:
        """Return the badge of each owner, and forget all others. New owners get free badges, in the
        order in which they are given."""
        wanted = list(dict.fromkeys(owners))
        with self._lock:
            known = {each: self._numbers[each] for each in wanted if each in self._numbers}
            used, free = set(known.values()), 0
            for each in wanted:
                if each not in known:
                    while free in used:
                        free += 1
                    known[each] = free
                    used.add(free)
            self._numbers = known
            return {each: badge(known[each]) for each in wanted}
