"""A host cell as the fit sees it: what is there, less what is taken."""

from __future__ import annotations

from collections.abc import Iterator

from rtagent.model.base import Value
from rtagent.model.numa_policy import NumaPolicy
from rtagent.model.numa_usage import NumaUsage
from rtagent.model.pages import KIB_IN_MIB
from rtagent.model.topology import Cell, Topology


class Core(Value, frozen=True):
    """:ivar free: its threads that a guest may be pinned to, in order. :ivar threads: how many it
    has in all, online."""

    free: tuple[int, ...]
    threads: int

    @property
    def idle(self) -> bool:
        """All of it is free."""
        return len(self.free) == self.threads


class Room(Value, frozen=True, kw_only=True):
    """One host cell.

    :ivar cores: those with a thread free for pinning, by their lowest thread.
    :ivar dedicated: how many of its CPUs are for pinning, taken or not.
    :ivar shared: CPUs on which shared vCPUs may float. :ivar vcpus: how many do.
    :ivar memory_mb: MB, all of it. :ivar memory_used: MB.
    :ivar pages: (total, free) by size (KiB), smallest first; empty when the host tells of none.
        Memory that was given without an explicit size is in pages of the smallest.
    """

    id: int
    cores: tuple[Core, ...]
    dedicated: int
    shared: frozenset[int]
    vcpus: int
    memory_mb: int
    memory_used: int
    pages: dict[int, tuple[int, int]]

    @property
    def where(self) -> str:
        """Its name in a refusal."""
        return f"cell {self.id}"

    @property
    def free_pcpus(self) -> int:
        """How many of its CPUs are free for pinning."""
        return sum(len(core.free) for core in self.cores)

    @property
    def ordinary_mb(self) -> tuple[int, int]:
        """(total, free) MB of memory in pages of no explicit size: the smallest."""
        if not self.pages:
            return self.memory_mb, self.memory_mb - self.memory_used
        size = min(self.pages)
        total, free = self.pages[size]
        return total * size // KIB_IN_MIB, free * size // KIB_IN_MIB

    def spare(self, pinning: bool) -> tuple[int, int]:
        """How much there is left, of CPUs first: free for pinning, or by how few shared vCPUs."""
        cpus = self.free_pcpus if pinning else -self.vcpus
        return cpus, self.memory_mb - self.memory_used


def rooms(topology: Topology, usage: NumaUsage, policy: NumaPolicy) -> tuple[Room, ...]:
    """Every host cell, in the topology's order."""
    taken = usage.pinned.keys() | usage.kept.keys()
    shared, dedicated = policy.shared(topology.cpus), policy.dedicated(topology.cpus)
    return tuple(
        Room(
            id=cell.id,
            cores=tuple(_cores(cell, dedicated - taken)),
            dedicated=len(dedicated & cell.cpus),
            # A CPU may be held, and have come into the shared set since.
            shared=shared & cell.cpus - taken,
            vcpus=usage.vcpus.get(cell.id, 0),
            memory_mb=cell.memory_mb,
            memory_used=usage.memory_mb.get(cell.id, 0),
            pages=_pages(cell, usage, policy),
        )
        for cell in topology.cells
    )


def _cores(cell: Cell, free: frozenset[int]) -> Iterator[Core]:
    known = frozenset[int]().union(*cell.siblings)
    alone = (frozenset({cpu}) for cpu in cell.cpus - known)
    for siblings in sorted((*cell.siblings, *alone), key=min):
        threads = siblings & free
        if threads:
            yield Core(tuple(sorted(threads)), len(siblings))


def _pages(cell: Cell, usage: NumaUsage, policy: NumaPolicy) -> dict[int, tuple[int, int]]:
    reserved = policy.reserved_huge_pages.get(cell.id, {})
    used = {size: usage.pages.get((cell.id, size), 0) for size in cell.pages}
    if cell.pages:
        explicit_kib = sum(size * number for size, number in used.items())
        others_kib = usage.memory_mb.get(cell.id, 0) * KIB_IN_MIB - explicit_kib
        smallest = min(cell.pages)
        used[smallest] += -(-others_kib // smallest)
    return {
        size: (cell.pages[size], cell.pages[size] - reserved.get(size, 0) - used[size])
        for size in sorted(cell.pages)
    }
