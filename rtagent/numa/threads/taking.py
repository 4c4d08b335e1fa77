"""What a thread policy takes, and how whole cores are filled."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rtagent.model.base import Value
from rtagent.numa.room import Core


class Taking(Value, frozen=True, kw_only=True):
    """:ivar pcpus: a host CPU for each vCPU, neighbours on siblings where there are some.
    :ivar reserved: for the emulator. :ivar kept: siblings that nobody may use."""

    pcpus: tuple[int, ...] = ()
    reserved: frozenset[int] = frozenset()
    kept: frozenset[int] = frozenset()


def free_threads(cores: Iterable[Core]) -> int:
    """How many threads are free, of all the cores together."""
    return sum(len(core.free) for core in cores)


def filled(cores: Sequence[Core], number: int) -> list[tuple[int, ...]]:
    """So many threads, by core: the cores with the most free threads are filled; those that are
    left over go where they leave the fewest idle, which spares whole cores for who needs them.

    There must be enough.
    """
    fullest = sorted(cores, key=lambda core: -len(core.free))
    taken: list[tuple[int, ...]] = []
    for place, core in enumerate(fullest):
        if number <= len(core.free):
            roomy = (other for other in fullest[place:] if len(other.free) >= number)
            tightest = min(roomy, key=lambda other: len(other.free))
            return [*taken, tightest.free[:number]] if number else taken
        taken.append(core.free)
        number -= len(core.free)
    return taken


def pinned(by_core: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
    """The threads of several cores, one core after the other."""
    return tuple(thread for core in sorted(by_core) for thread in core)


def beside(cores: Sequence[Core], pcpus: Sequence[int], number: int) -> frozenset[int]:
    """So many free threads beside those taken, on other cores if they can be.

    There must be enough.
    """
    mine = frozenset(pcpus)
    others = [
        (not mine.isdisjoint(core.free), len(core.free), thread)
        for core in cores
        for thread in core.free
        if thread not in mine
    ]
    return frozenset(thread for *_, thread in sorted(others)[:number])
