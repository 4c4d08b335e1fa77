"""Fits of guests on NUMA hosts; each question is repeated many times in one thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from statistics import median

from msgspec.structs import replace

from benchmarks.bench import Bench, seconds_each
from benchmarks.figure import Figure
from rtagent.model.decision import Reason, ReasonCode
from rtagent.model.policy import NumaPolicy
from rtagent.model.usage import NumaUsage
from rtagent.numa.fit import Fitted, fit
from rtagent.numa.host_cells import CellLimits, HostCells
from rtagent.numa.requirements import NumaRequirements
from rtagent.numa.search import RequestedDevices
from tests.support.numa_hosts import HUGE, LARGE, cell, pinned, required, topology

GIB = 1024
NOTHING_NEAR = Reason(
    code=ReasonCode.INSUFFICIENT,
    resource="PCI",
    where="cn1",
    requested=1,
    available=0,
    unit="devices",
)


class Late:
    """Devices that refuse many placements before they accept one: the worst case of a search.

    :param refusals: None: they refuse every one.
    """

    def __init__(self, refusals: int | None) -> None:
        self._refusals = refusals

    def weight(self, cell: int) -> int:
        return 0

    def possible(self, cells: frozenset[int]) -> bool:
        return True

    def refusal(self, cells: tuple[int, ...]) -> tuple[Reason, ...]:
        if self._refusals == 0:
            return ()
        self._refusals = self._refusals and self._refusals - 1
        return (NOTHING_NEAR,)


class Near:
    """Devices in some cells, all of which the guest must use."""

    def __init__(self, *cells: int) -> None:
        self._cells = frozenset(cells)

    def weight(self, cell: int) -> int:
        return -int(cell in self._cells)

    def possible(self, cells: frozenset[int]) -> bool:
        return self._cells <= cells

    def refusal(self, cells: tuple[int, ...]) -> tuple[Reason, ...]:
        return () if self.possible(frozenset(cells)) else (NOTHING_NEAR,)


#: A guest, and what makes its devices.
Question = tuple[NumaRequirements, Callable[[], RequestedDevices | None]]


def measure(bench: Bench) -> Iterator[Figure]:
    """Each is the median time of the slowest of several questions. numa_fit_p50: a guest on two
    sockets of 64 CPUs, 80 % used. numa_fit_worst: 8 guest cells on 16 host cells, whatever the
    devices do. numa_refusal: the slowest of those that are refused, against the slowest of those
    that are granted."""
    busy = _host(2, 32, whole=7)
    usual = [_taken(bench, busy, question, True) for question in _usual()]
    yield Figure(name="numa_fit_p50", value=max(map(median, usual)) * 1000, unit="ms", target=1)
    large = _host(16, 16, whole=5)
    grants = [_taken(bench, large, question, True) for question in _granted()]
    refusals = [_taken(bench, large, question, False) for question in _refused()]
    worst = max(map(median, grants + refusals))
    yield Figure(name="numa_fit_worst", value=worst * 1000, unit="ms", target=20)
    yield Figure(
        name="numa_refusal",
        value=max(map(median, refusals)) * 1000,
        unit="ms",
        floor=max(map(median, grants)) * 1000,
        target=2,
    )


def _taken(bench: Bench, host: HostCells, question: Question, granted: bool) -> list[float]:
    """Return the seconds of each answer."""
    guest, devices = question

    def ask() -> object:
        # A host on which nothing was fitted before, as after each claim.
        return fit(guest, replace(host), CellLimits(), devices())

    answer = ask()
    assert isinstance(answer, Fitted) == granted, answer
    return seconds_each(ask, bench.rounds(500))


def _host(cells: int, cores: int, whole: int) -> HostCells:
    """A host on which two cores of ten are shared, and of nine dedicated ones `whole` have both
    threads pinned and one has one thread pinned. Memory of each page size is used likewise."""
    there = [cell(n, cores, memory_mb=64 * GIB, huge={LARGE: 4096, HUGE: 16}) for n in range(cells)]
    shared = [core for one in there for core in one.siblings[: cores // 5]]
    dedicated = [core for one in there for core in one.siblings[cores // 5 :]]
    used = [
        cpu
        for place, core in enumerate(dedicated)
        for cpu in sorted(core)[: 2 if place % 9 < whole else 1 if place % 9 == whole else 0]
    ]
    return HostCells(
        name="cn1",
        topology=topology(*there),
        usage=NumaUsage(
            pinned=dict.fromkeys(used, 1),
            vcpus={one.id: cores // 5 for one in there},
            memory_mb={one.id: 38 * GIB for one in there},
            pages={(one.id, HUGE): 8 for one in there},
        ),
        policy=NumaPolicy(
            cpu_shared_set=frozenset[int]().union(*shared),
            cpu_dedicated_set=frozenset[int]().union(*dedicated),
        ),
    )


def _usual() -> Iterator[Question]:
    yield pinned(4, 4096), _none
    yield pinned(2, 4096, cpu_thread_policy="isolate"), _none
    yield pinned(3, 4096, cpu_thread_policy="require", emulator_threads_policy="isolate"), _none
    yield pinned(8, 8192, numa_nodes="2", mem_page_size="1GB"), _none
    yield required(4, 4096, cpu_policy="mixed", cpu_dedicated_mask="^0"), _none
    yield required(4, 4096, mem_page_size="any"), _none


def _granted() -> Iterator[Question]:
    for guest in _guests():
        yield guest, _none
        yield guest, lambda: Near(3, 7, 15)
        yield guest, lambda: Late(100)
        yield guest, lambda: Late(1500)


def _refused() -> Iterator[Question]:
    for guest in _guests():
        yield guest, lambda: Near(3, 99)
        yield guest, lambda: Late(None)
    yield pinned(256, 32 * GIB, numa_nodes="8", mem_page_size="any"), _none
    yield pinned(8, 8 * GIB * 40, numa_nodes="8"), _none


def _guests() -> tuple[NumaRequirements, NumaRequirements]:
    """A guest of eight equal cells, and one of cells with one to eight vCPUs."""
    cells = {f"numa_cpus_{n}": f"{n * (n + 1) // 2}-{n * (n + 3) // 2}" for n in range(8)}
    memory = {f"numa_mem_{n}": str(2 * GIB) for n in range(8)}
    return (
        pinned(32, 16 * GIB, numa_nodes="8", mem_page_size="large"),
        pinned(36, 16 * GIB, numa_nodes="8", mem_page_size="large", **cells, **memory),
    )


def _none() -> None:
    """No devices."""
