"""The hardware of a simulated host, and how Linux would number it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from rtagent.model.base import Value
from rtagent.model.pages import KIB_IN_MIB
from rtagent.virt.simulate.world import SimulationError

#: KiB, of the pages that memory is in where no others are set aside.
SMALLEST_PAGE = 4

#: How many devices there may be: with all of them on one cell they still have addresses. Virtual
#: functions are those of each card.
LIMITS = {"gpus": 16, "nics": 16, "vfs": 256, "nvmes": 16}


class Cpu(Value, frozen=True, kw_only=True):
    """One hardware thread. :ivar siblings: ids of the threads of its core, itself included."""

    id: int
    cell: int
    socket: int
    core: int
    siblings: tuple[int, ...]


class Machine(Value, frozen=True, kw_only=True):
    """Sockets, cores of each socket, threads of each core; memory in MB.

    :ivar cells: NUMA cells; cores and memory are spread evenly. Default: one for each socket.
    :ivar pages: how many larger pages are set aside in each cell, by size (KiB).
    :ivar gpus: GPUs, dealt out to the cells in turn; so are the network cards (`nics`), each with
        so many virtual functions (`vfs`), and the NVMe controllers (`nvmes`).
    :ivar hostname: what the host calls itself.
    """

    sockets: int = 2
    cores: int = 8
    threads: int = 2
    memory_mb: int = 65536
    cells: int | None = None
    pages: Mapping[int, int] = {}
    hostname: str = "simulated-host"
    gpus: int = 0
    nics: int = 0
    vfs: int = 0
    nvmes: int = 0

    def __post_init__(self) -> None:
        for name in ("sockets", "cores", "threads", "memory_mb", "numa_cells"):
            if getattr(self, name) < 1:
                raise SimulationError(f"{name} = {getattr(self, name)}: it must be at least 1")
        for name, most in LIMITS.items():
            if not 0 <= getattr(self, name) <= most:
                raise SimulationError(f"{name} = {getattr(self, name)}: from 0 to {most}")
        if not re.fullmatch(r"[A-Za-z0-9.-]+", self.hostname):
            raise SimulationError(f"hostname {self.hostname!r}: letters, digits, - and . only")
        for what, number in (("cores", self.sockets * self.cores), ("MB", self.memory_mb)):
            if number % self.numa_cells:
                raise SimulationError(
                    f"{number} {what} cannot be spread evenly over {self.numa_cells} NUMA cells:"
                    " choose a number of cells that divides it"
                )
        self._check_pages()

    @property
    def numa_cells(self) -> int:
        """As given, or one for each socket."""
        return self.sockets if self.cells is None else self.cells

    @property
    def cell_kib(self) -> int:
        """KiB of memory of each cell."""
        return self.memory_mb // self.numa_cells * KIB_IN_MIB

    @property
    def paged_kib(self) -> int:
        """KiB of each cell that are set aside in larger pages."""
        return sum(size * count for size, count in self.pages.items())

    @property
    def cpus(self) -> Iterator[Cpu]:
        """By id: the first threads of all cores come before the second ones."""
        total = self.sockets * self.cores
        for thread in range(self.threads):
            for number in range(total):
                yield Cpu(
                    id=thread * total + number,
                    cell=number * self.numa_cells // total,
                    socket=number // self.cores,
                    core=number % self.cores,
                    siblings=tuple(range(number, total * self.threads, total)),
                )

    def _check_pages(self) -> None:
        for size, count in self.pages.items():
            if size <= SMALLEST_PAGE or size & (size - 1):
                raise SimulationError(
                    f"pages of {size} KiB: a size is a power of two above {SMALLEST_PAGE}"
                )
            if count < 0:
                raise SimulationError(f"{count} pages of {size} KiB: there cannot be less than 0")
        if self.paged_kib > self.cell_kib:
            raise SimulationError(
                f"the pages take {self.paged_kib} KiB of each cell, which has {self.cell_kib}"
            )
