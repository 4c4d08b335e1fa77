"""What is taken of the host's CPUs, cells and pages: a sum over assignments, never kept by itself.

Everything in it is a count, CPUs included, so that taking an owner's part out of the sum again is
exact even where two owners hold one CPU (a foreign domain may, a claim never).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from rtagent.model.assignment import Assignment
from rtagent.model.base import Value

K = TypeVar("K")


class NumaUsage(Value, frozen=True, kw_only=True, repr_omit_defaults=True):
    """:ivar pinned: how many hold a host CPU, by CPU. :ivar kept: how many keep it idle, by CPU.
    :ivar vcpus: shared vCPUs, by cell. :ivar memory_mb: MB, pages of explicit sizes included, by
        cell.
    :ivar pages: pages of an explicit size, by cell and size (KiB).
    """

    pinned: Mapping[int, int] = {}
    kept: Mapping[int, int] = {}
    vcpus: Mapping[int, int] = {}
    memory_mb: Mapping[int, int] = {}
    pages: Mapping[tuple[int, int], int] = {}

    def plus(self, other: NumaUsage) -> NumaUsage:
        if other is NUMA_NOTHING:  # most guests
            return self
        return self._with(other, lambda ours, theirs: ours + theirs)

    def minus(self, other: NumaUsage) -> NumaUsage:
        if other is NUMA_NOTHING:
            return self
        return self._with(other, lambda ours, theirs: ours - theirs)

    def larger(self, other: NumaUsage) -> NumaUsage:
        """The larger of the two, count by count."""
        if other is NUMA_NOTHING:
            return self
        return self._with(other, max)

    def _with(self, other: NumaUsage, combine: Callable[[int, int], int]) -> NumaUsage:
        return NumaUsage(
            pinned=_combined(self.pinned, other.pinned, combine),
            kept=_combined(self.kept, other.kept, combine),
            vcpus=_combined(self.vcpus, other.vcpus, combine),
            memory_mb=_combined(self.memory_mb, other.memory_mb, combine),
            pages=_combined(self.pages, other.pages, combine),
        )


class Occupancy(Value, frozen=True, kw_only=True):
    """What a domain was seen to use, whether or not anyone granted it.

    :ivar pcpus: host CPUs that its vCPUs or its emulator are confined to.
    :ivar memory_mb: MB by cell, of what is bound to one. :ivar pages: by cell, by size (KiB).
    :ivar devices: addresses of PCI devices. :ivar mdevs: uuids of mediated ones.
    :ivar makers: addresses of the devices that make these.
    """

    pcpus: frozenset[int] = frozenset()
    memory_mb: Mapping[int, int] = {}
    pages: Mapping[int, Mapping[int, int]] = {}
    devices: frozenset[str] = frozenset()
    mdevs: frozenset[str] = frozenset()
    makers: frozenset[str] = frozenset()

    @property
    def usage(self) -> NumaUsage:
        """What it counts for."""
        return NumaUsage(
            pinned=dict.fromkeys(self.pcpus, 1),
            memory_mb=self.memory_mb,
            pages={
                (cell, size): number
                for cell, pools in self.pages.items()
                for size, number in pools.items()
            },
        )


def assigned(assignment: Assignment | None) -> NumaUsage:
    """What one assignment counts for."""
    if assignment is None or not assignment.cells:
        return NUMA_NOTHING
    sums = _Sums()
    for cell in assignment.cells:
        sums.pinned.update(cell.cpu_pinning.values())
        sums.pinned.update(cell.cpuset_reserved)
        sums.kept.update(cell.cpuset_kept)
        sums.vcpus[cell.id] += len(cell.cpuset)
        sums.memory_mb[cell.id] += cell.memory
        if cell.pagesize is not None:
            sums.pages[cell.id, cell.pagesize] += cell.pages
    return sums.usage()


def total(usages: Iterable[NumaUsage]) -> NumaUsage:
    """The sum, from zero."""
    sums = _Sums()
    for usage in usages:
        sums.pinned.update(usage.pinned)
        sums.kept.update(usage.kept)
        sums.vcpus.update(usage.vcpus)
        sums.memory_mb.update(usage.memory_mb)
        sums.pages.update(usage.pages)
    return sums.usage()


class _Sums:
    """A usage in the making."""

    def __init__(self) -> None:
        self.pinned, self.kept = Counter[int](), Counter[int]()
        self.vcpus, self.memory_mb = Counter[int](), Counter[int]()
        self.pages = Counter[tuple[int, int]]()

    def usage(self) -> NumaUsage:
        return NumaUsage(
            pinned=_something(self.pinned),
            kept=_something(self.kept),
            vcpus=_something(self.vcpus),
            memory_mb=_something(self.memory_mb),
            pages=_something(self.pages),
        )


def _combined(
    ours: Mapping[K, int], theirs: Mapping[K, int], combine: Callable[[int, int], int]
) -> dict[K, int]:
    return _something(
        {key: combine(ours.get(key, 0), theirs.get(key, 0)) for key in {*ours, *theirs}}
    )


def _something(counts: Mapping[K, int]) -> dict[K, int]:
    """Without the keys of which there is nothing, so that equal sums are equal values."""
    return {key: count for key, count in counts.items() if count}


NUMA_NOTHING = NumaUsage()
