"""The hardware of a simulated host, and how Linux would number it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rtagent.model.base import Value
from rtagent.virt.simulate.world import SimulationError


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
    :ivar hostname: what the host calls itself.
    """

    sockets: int = 2
    cores: int = 8
    threads: int = 2
    memory_mb: int = 65536
    cells: int | None = None
    hostname: str = "simulated-host"

    def __post_init__(self) -> None:
        for name in ("sockets", "cores", "threads", "memory_mb", "numa_cells"):
            if getattr(self, name) < 1:
                raise SimulationError(f"{name} = {getattr(self, name)}: it must be at least 1")
        if not re.fullmatch(r"[A-Za-z0-9.-]+", self.hostname):
            raise SimulationError(f"hostname {self.hostname!r}: letters, digits, - and . only")
        for what, number in (("cores", self.sockets * self.cores), ("MB", self.memory_mb)):
            if number % self.numa_cells:
                raise SimulationError(
                    f"{number} {what} cannot be spread evenly over {self.numa_cells} NUMA cells:"
                    " choose a number of cells that divides it"
                )

    @property
    def numa_cells(self) -> int:
        """As given, or one for each socket."""
        return self.sockets if self.cells is None else self.cells

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
