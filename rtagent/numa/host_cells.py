"""The host to which a guest is fitted, and the capacity of each of its NUMA cells."""

from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal

from rtagent.model.base import Value
from rtagent.model.derived import derived
from rtagent.model.policy import NumaPolicy, Policy
from rtagent.model.topology import Cell, Topology
from rtagent.model.units import KIB_IN_MIB, round_up
from rtagent.model.usage import NumaUsage


class HostCells(Value, frozen=True, kw_only=True, weakref=True):
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
    :ivar free_pcpus: the number of its CPUs that are free for pinning.
    :ivar dedicated: the number of its CPUs for pinning, used or not.
    :ivar shared: its CPUs on which shared vCPUs float. :ivar vcpus: the shared vCPUs in use.
    :ivar memory_mb: MB in total. :ivar memory_used: MB.
    :ivar pages: (total, free) by size (KiB), smallest first; empty if the host reports none.
        Memory that was assigned without an explicit page size counts as pages of the smallest size.
    """

    id: int
    cores: tuple[Core, ...]
    free_pcpus: int
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
    def small_pages_mb(self) -> tuple[int, int]:
        """(total, free) MB in pages of the smallest size, which memory comes from by default."""
        if not self.pages:
            return self.memory_mb, self.memory_mb - self.memory_used
        size = min(self.pages)
        total, free = self.pages[size]
        return total * size // KIB_IN_MIB, free * size // KIB_IN_MIB


@derived
def host_cells(host: HostCells) -> tuple[CellCapacity, ...]:
    """Return the capacity of every cell of a host, in the order of the topology."""
    return cell_capacities(host.topology, host.usage, host.policy)


def keep_cells(before: HostCells, after: HostCells, changed: Iterable[NumaUsage]) -> None:
    """Derive the cells of a host from those of the host before a change, if they are known: a cell
    of which no usage has changed stays as it is.

    :param after: with the topology and the policy of `before`.
    :param changed: the usage of every owner that has changed, before and after the change.
    """
    capacities = host_cells.known(before)
    if capacities is None:
        return
    cells = _cells_of(changed, after.topology)
    host_cells.keep(
        after,
        tuple(
            _capacity(cell, cores, after.usage, after.policy) if cell.id in cells else capacity
            for capacity, cell, cores in zip(
                capacities, after.topology.cells, _idle_cores(after.topology), strict=True
            )
        ),
    )


def _cells_of(changed: Iterable[NumaUsage], topology: Topology) -> set[int]:
    """Return the ids of the cells in which these usages count something."""
    cells, cell_of = set[int](), _cell_of_cpu(topology)
    for usage in changed:
        cells.update(usage.vcpus, usage.memory_mb, (cell for cell, _ in usage.pages))
        cells.update(cell_of[cpu] for cpu in (*usage.pinned, *usage.kept) if cpu in cell_of)
    return cells


@derived
def _cell_of_cpu(topology: Topology) -> Mapping[int, int]:
    return {cpu: cell.id for cell in topology.cells for cpu in cell.cpus}


def cell_capacities(
    topology: Topology, usage: NumaUsage, policy: NumaPolicy
) -> tuple[CellCapacity, ...]:
    """Return the capacity of every host cell, in the order of the topology."""
    return tuple(
        _capacity(cell, cores, usage, policy)
        for cell, cores in zip(topology.cells, _idle_cores(topology), strict=True)
    )


def _capacity(
    cell: Cell, cores: Iterable[Core], usage: NumaUsage, policy: NumaPolicy
) -> CellCapacity:
    """Return the capacity of one cell. :param cores: all its cores, with all threads free."""
    dedicated = policy.dedicated(cell.cpus)
    free = dedicated.difference(usage.pinned, usage.kept)
    return CellCapacity(
        id=cell.id,
        cores=tuple(_with_free_threads(cores, free)),
        free_pcpus=len(free),
        dedicated=len(dedicated),
        shared=policy.floating(cell.cpus, usage.pinned.keys() | usage.kept.keys()),
        vcpus=usage.vcpus.get(cell.id, 0),
        memory_mb=cell.memory_mb,
        memory_used=usage.memory_mb.get(cell.id, 0),
        pages=page_pools(cell, usage, policy),
    )


@derived
def _idle_cores(topology: Topology) -> tuple[tuple[Core, ...], ...]:
    """Return all cores of each cell, by their lowest thread, as if all threads were free."""
    return tuple(
        tuple(Core(tuple(sorted(threads)), len(threads)) for threads in _threads_of(cell))
        for cell in topology.cells
    )


def _threads_of(cell: Cell) -> Iterator[frozenset[int]]:
    listed = frozenset[int]().union(*cell.siblings)
    single = (frozenset({cpu}) for cpu in cell.cpus - listed)
    yield from sorted((*cell.siblings, *single), key=min)


def _with_free_threads(cores: Iterable[Core], free: frozenset[int]) -> Iterator[Core]:
    for core in cores:
        here = free.intersection(core.free)
        if len(here) == core.threads:
            yield core
        elif here:
            yield Core(tuple(sorted(here)), core.threads)


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
