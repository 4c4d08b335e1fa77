"""The host to which a guest is fitted, and the capacity of each of its NUMA cells."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from decimal import Decimal

from rtagent.model.base import Value
from rtagent.model.derived import derived
from rtagent.model.policy import NumaPolicy, Policy
from rtagent.model.topology import Cell, Topology
from rtagent.model.units import KIB_IN_MIB, round_up
from rtagent.model.usage import NumaUsage


class Host(Value, frozen=True, kw_only=True, weakref=True):
    """The resources of the host, and their usage by others.

    :ivar name: of the node, for refusals.
    """

    name: str
    topology: Topology
    usage: NumaUsage
    policy: NumaPolicy


class CellLimits(Value, frozen=True, kw_only=True):
    """How far one host cell may be overcommitted.

    The ratios are exact, so that no rounding decides whether a guest fits. They apply to shared
    vCPUs, and to memory in pages of the smallest size, requested or not, unless all of the guest's
    CPUs are dedicated.
    """

    cpu_allocation_ratio: Decimal = Decimal(1)
    ram_allocation_ratio: Decimal = Decimal(1)


def cell_limits(cpu_ratio: float | None, ram_ratio: float | None, policy: Policy) -> CellLimits:
    """Return the limits that a request sets; None: the host's own ratio applies."""
    return CellLimits(
        cpu_allocation_ratio=(
            policy.cpu_allocation_ratio if cpu_ratio is None else Decimal(str(cpu_ratio))
        ),
        ram_allocation_ratio=(
            policy.ram_allocation_ratio if ram_ratio is None else Decimal(str(ram_ratio))
        ),
    )


class Core(Value, frozen=True):
    """One physical core.

    :ivar free: its threads that a guest may be pinned to, in order.
    :ivar threads: the number of its online threads.
    """

    free: tuple[int, ...]
    threads: int

    @property
    def idle(self) -> bool:
        """Whether all threads of the core are free."""
        return len(self.free) == self.threads


class CellCapacity(Value, frozen=True, kw_only=True):
    """One host cell: its total and its free capacity.

    :ivar cores: its cores that have a thread free for pinning, by their lowest thread.
    :ivar dedicated: the number of its CPUs for pinning, used or not.
    :ivar shared: its CPUs on which shared vCPUs float. :ivar vcpus: the shared vCPUs in use.
    :ivar memory_mb: MB in total. :ivar memory_used: MB.
    :ivar pages: (total, free) by size (KiB), smallest first; empty if the host reports none.
        Memory that was assigned without an explicit page size counts as pages of the smallest size.
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
        """The name of the cell in a refusal."""
        return f"cell {self.id}"

    @property
    def free_pcpus(self) -> int:
        """The number of its CPUs that are free for pinning."""
        return sum(len(core.free) for core in self.cores)

    @property
    def small_pages_mb(self) -> tuple[int, int]:
        """(total, free) MB in pages of the smallest size, which memory comes from by default."""
        if not self.pages:
            return self.memory_mb, self.memory_mb - self.memory_used
        size = min(self.pages)
        total, free = self.pages[size]
        return total * size // KIB_IN_MIB, free * size // KIB_IN_MIB


@derived
def host_cells(host: Host) -> tuple[CellCapacity, ...]:
    """Return the capacity of every cell of a host, in the order of the topology."""
    return cell_capacities(host.topology, host.usage, host.policy)


def cell_capacities(
    topology: Topology, usage: NumaUsage, policy: NumaPolicy
) -> tuple[CellCapacity, ...]:
    """Return the capacity of every host cell, in the order of the topology."""
    used = usage.pinned.keys() | usage.kept.keys()
    shared, dedicated = policy.shared(topology.cpus), policy.dedicated(topology.cpus)
    return tuple(
        CellCapacity(
            id=cell.id,
            cores=tuple(_cores(threads, dedicated - used)),
            dedicated=len(dedicated & cell.cpus),
            # A guest may be pinned to a CPU that was added to the shared set later.
            shared=shared & cell.cpus - used,
            vcpus=usage.vcpus.get(cell.id, 0),
            memory_mb=cell.memory_mb,
            memory_used=usage.memory_mb.get(cell.id, 0),
            pages=page_pools(cell, usage, policy),
        )
        for cell, threads in zip(topology.cells, _threads(topology), strict=True)
    )


@derived
def _threads(topology: Topology) -> tuple[tuple[frozenset[int], ...], ...]:
    """Return the threads of the cores of each cell, by their lowest thread."""
    return tuple(tuple(_threads_of(cell)) for cell in topology.cells)


def _threads_of(cell: Cell) -> Iterator[frozenset[int]]:
    listed = frozenset[int]().union(*cell.siblings)
    single = (frozenset({cpu}) for cpu in cell.cpus - listed)
    yield from sorted((*cell.siblings, *single), key=min)


def _cores(threads: Iterable[frozenset[int]], free: frozenset[int]) -> Iterator[Core]:
    for siblings in threads:
        here = siblings & free
        if here:
            yield Core(tuple(sorted(here)), len(siblings))


def page_pools(cell: Cell, usage: NumaUsage, policy: NumaPolicy) -> dict[int, tuple[int, int]]:
    """Return the pages of a cell as `CellCapacity.pages` describes them."""
    reserved = policy.reserved_huge_pages.get(cell.id, {})
    used = {size: usage.pages.get((cell.id, size), 0) for size in cell.pages}
    if cell.pages:
        explicit_kib = sum(size * number for size, number in used.items())
        others_kib = usage.memory_mb.get(cell.id, 0) * KIB_IN_MIB - explicit_kib
        smallest = min(cell.pages)
        used[smallest] += round_up(others_kib, smallest)
    return {
        size: (cell.pages[size], cell.pages[size] - reserved.get(size, 0) - used[size])
        for size in sorted(cell.pages)
    }
