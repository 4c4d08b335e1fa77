"""How long the fit takes, on hosts and guests of the sizes that matter.

    python benchmarks/numa_fit.py

Times are of one thread, in milliseconds; each figure is over so many calls of the same question,
whose answer is checked first.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterable
from decimal import Decimal

from rtagent.model.decision import Reason, ReasonCode
from rtagent.model.flavor import Flavor, Image
from rtagent.model.numa_policy import NumaPolicy
from rtagent.model.numa_usage import NumaUsage
from rtagent.model.topology import Cell, Topology
from rtagent.numa.constraints import Constraints, constraints
from rtagent.numa.devices import Devices
from rtagent.numa.fit import Fitted, fit
from rtagent.numa.host import Host
from rtagent.numa.limits import CellLimits

LIMITS = CellLimits(cpu_allocation_ratio=Decimal(4), ram_allocation_ratio=Decimal("1.5"))
GIB = 1024


class Placements:
    """Devices that take any placement of the given rank or a later one, in the order in which
    placements are put to them: the worst that a check can do to a search."""

    def __init__(self, rank: int | None) -> None:
        self._rank, self._asked = rank, 0

    def weight(self, cell: int) -> int:
        return 0

    def possible(self, cells: frozenset[int]) -> bool:
        return True

    def refusal(self, cells: tuple[int, ...]) -> tuple[Reason, ...]:
        self._asked += 1
        if self._rank is not None and self._asked > self._rank:
            return ()
        return (
            Reason(
                code=ReasonCode.INSUFFICIENT,
                resource="PCI",
                where="cn1",
                requested=1,
                available=0,
                unit="devices",
            ),
        )


class Near:
    """Devices on some cells, each of which the guest must be on."""

    def __init__(self, *cells: int) -> None:
        self._cells = frozenset(cells)

    def weight(self, cell: int) -> int:
        return -int(cell in self._cells)

    def possible(self, cells: frozenset[int]) -> bool:
        return self._cells <= cells

    def refusal(self, cells: tuple[int, ...]) -> tuple[Reason, ...]:
        return () if self.possible(frozenset(cells)) else Placements(None).refusal(cells)


def host(cells: int, cores: int, used: float) -> Host:
    """Cells of so many cores of two threads: four in five for pinning, that part of them used, the
    first threads of cores in part and whole cores; memory of three page sizes, used as much."""
    there = tuple(_cell(number, cores) for number in range(cells))
    dedicated = [core for cell in there for core in cell.siblings[cores // 5 :]]
    online = frozenset[int]().union(*(cell.cpus for cell in there))
    shared = online - frozenset[int]().union(*dedicated)
    return Host(
        name="cn1",
        topology=Topology(cpus=online, memory_mb=cells * 64 * GIB, disk_mb=0, cells=there),
        usage=NumaUsage(
            pinned=dict.fromkeys(_used(dedicated, used), 1),
            vcpus={cell.id: int(len(shared & cell.cpus) * 4 * used) for cell in there},
            memory_mb={cell.id: int(64 * GIB * used) for cell in there},
            pages={(cell.id, 1048576): int(16 * used) for cell in there},
        ),
        policy=NumaPolicy(cpu_dedicated_set=online - shared, cpu_shared_set=shared),
    )


def _cell(number: int, cores: int) -> Cell:
    first = number * cores * 2
    cpus = range(first, first + cores * 2)
    small = (64 - 16 - 8) * GIB * 1024 // 4
    return Cell(
        id=number,
        cpus=frozenset(cpus),
        memory_mb=64 * GIB,
        siblings=tuple(frozenset(cpus[n : n + 2]) for n in range(0, cores * 2, 2)),
        sockets=frozenset({number // 4}),
        pages={4: small, 2048: 8 * 512, 1048576: 16},
    )


def _used(cores: list[frozenset[int]], part: float) -> Iterable[int]:
    """Of ten cores so many wholly, and one by a thread."""
    for place, core in enumerate(cores):
        if place % 10 < int(part * 10) - 1:
            yield from core
        elif place % 10 == int(part * 10) - 1:
            yield min(core)


def guest(vcpus: int, memory_mb: int, **specs: str) -> Constraints:
    """``cpu_policy="dedicated"`` is ``hw:cpu_policy``."""
    extra = {f"hw:{name}": value for name, value in specs.items()}
    return constraints(Flavor(vcpus=vcpus, memory_mb=memory_mb, extra_specs=extra), Image())


def times(question: Callable[[], object], calls: int) -> list[float]:
    """Milliseconds of each call, sorted."""
    for _ in range(3):
        question()
    gc.collect()
    spent = []
    for _ in range(calls):
        began = time.perf_counter()
        question()
        spent.append((time.perf_counter() - began) * 1000)
    return sorted(spent)


def measure(
    name: str,
    asked: Constraints,
    where: Host,
    granted: bool,
    devices: Callable[[], Devices] | None = None,
    calls: int = 200,
) -> list[float]:
    """Print a line of one question; its times."""

    def question() -> object:
        return fit(asked, where, LIMITS, devices() if devices else None)

    answer = question()
    assert isinstance(answer, Fitted) == granted, f"{name}: {answer}"
    spent = times(question, calls)
    p99 = spent[int(len(spent) * 0.99)]
    print(f"  {name:58} {statistics.median(spent):8.3f} {p99:8.3f} {spent[-1]:8.3f}")
    return spent


def two_sockets() -> None:
    where = host(2, 32, 0.8)
    print("2 cells, 128 CPUs, 80 % used                                      p50      p99      max")
    small = {"cpu_policy": "dedicated"}
    for name, asked in {
        "4 dedicated": guest(4, 4096, **small),
        "4 dedicated, isolate": guest(4, 4096, **small, cpu_thread_policy="isolate"),
        "4 dedicated, require, emulator isolated": guest(
            4, 4096, **small, cpu_thread_policy="require", emulator_threads_policy="isolate"
        ),
        "8 dedicated on 2 cells, 1 GiB pages": guest(
            8, 4096, **small, numa_nodes="2", mem_page_size="1GB"
        ),
        "4 mixed": guest(4, 4096, cpu_policy="mixed", cpu_dedicated_mask="^0"),
        "4 shared, any pages": guest(4, 4096, mem_page_size="any"),
    }.items():
        measure(name, asked, where, granted=True, calls=2000)
    measure("refused: 32 dedicated", guest(32, 4096, **small), where, granted=False, calls=2000)


def many_cells() -> None:
    where = host(16, 16, 0.6)
    print("\n16 host cells, 512 CPUs, 8 guest cells                           p50      p99      max")
    eight = {"cpu_policy": "dedicated", "numa_nodes": "8"}
    plain = guest(32, 32768, **eight)
    uneven = guest(36, 32768, cpu_policy="dedicated", numa_nodes="8", **_uneven())
    grants = [
        measure("equal guest cells", plain, where, True),
        measure("unequal guest cells", uneven, where, True),
        measure("devices near 3 cells", plain, where, True, lambda: Near(3, 7, 15)),
        measure("devices take the 100th placement", plain, where, True, lambda: Placements(100)),
        measure("devices take the 1000th", plain, where, True, lambda: Placements(1000)),
        measure("the same, unequal", uneven, where, True, lambda: Placements(1000)),
    ]
    refusals = [
        measure("refused: no cell fits", guest(160, 32768, **eight), where, False),
        measure("refused: too few cells fit", _crowding(), _crowded(), False),
        measure("refused: devices out of reach", plain, where, False, lambda: Near(3, 99)),
        measure("refused: devices take nothing", plain, where, False, lambda: Placements(None)),
        measure("the same, unequal", uneven, where, False, lambda: Placements(None)),
    ]
    grant = max(statistics.median(spent) for spent in grants)
    refusal = max(statistics.median(spent) for spent in refusals)
    print(f"\n  slowest refusal {refusal:.3f} ms, {refusal / grant:.2f} of the slowest grant's")


def _uneven() -> dict[str, str]:
    """Cells of 1 to 8 vCPUs."""
    specs, first = {}, 0
    for number in range(8):
        specs[f"numa_cpus.{number}"] = f"{first}-{first + number}"
        specs[f"numa_mem.{number}"] = "4096"
        first += number + 1
    return specs


def _crowding() -> Constraints:
    return guest(36, 32768, cpu_policy="dedicated", numa_nodes="8", **_uneven())


def _crowded() -> Host:
    """Few cells have room for the larger guest cells."""
    return host(16, 16, 0.8)


if __name__ == "__main__":
    two_sockets()
    many_cells()
