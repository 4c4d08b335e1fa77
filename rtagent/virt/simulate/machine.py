"""The hardware of a simulated host, numbered as Linux does."""

import re
from collections.abc import Iterator, Mapping

from rtagent.model.base import Value
from rtagent.model.cpuset import MAX_CPU
from rtagent.model.units import KIB_IN_MIB
from rtagent.virt.simulate.world import SimulationError

#: Size (KiB) of the pages of all memory that is not reserved for larger pages.
SMALLEST_PAGE = 4

#: Upper bounds with which all devices get addresses even on one cell. `vfs` is per card.
LIMITS = {
    "gpus": 16,
    "shared_gpus": 16,
    "nics": 16,
    "vfs": 256,
    "nvmes": 16,
    "sev_guests": 1006,
    "sev_es_guests": 1006,
    "sev_snp_guests": 1006,
    "tdx_guests": 1006,
}


#: MB of the largest host, 1 EiB.
MAX_MEMORY_MB = 2**40


class HardwareThread(Value, frozen=True, kw_only=True):
    """One hardware thread. :ivar siblings: ids of all threads of its core, including itself."""

    id: int
    cell: int
    socket: int
    core: int
    siblings: tuple[int, ...]


class Machine(Value, frozen=True, kw_only=True):
    """Hardware: sockets, cores per socket, threads per core, memory (MB), devices.

    :ivar cells: NUMA cells; cores and memory are spread evenly. Default: one per socket.
    :ivar pages: number of larger pages reserved in each cell, by size (KiB).
    :ivar gpus: GPUs. :ivar shared_gpus: GPUs with mediated devices.
    :ivar nics: network cards, each with `vfs` virtual functions.
    :ivar nvmes: NVMe controllers. All devices are spread over the cells in turn.
    :ivar hostname: the host's own name.
    :ivar sev_guests: guests with memory encrypted by AMD SEV that it can run.
    :ivar sev_es_guests: the same of SEV-ES. :ivar sev_snp_guests: of SEV-SNP, in their place.
    :ivar tdx_guests: of Intel TDX.
    :ivar namespaces: MB of each persistent memory namespace, by name.
    """

    sockets: int = 2
    cores: int = 8
    threads: int = 2
    memory_mb: int = 65536
    cells: int | None = None
    pages: Mapping[int, int] = {}
    hostname: str = "simulated-host"
    gpus: int = 0
    shared_gpus: int = 0
    nics: int = 0
    vfs: int = 0
    nvmes: int = 0
    sev_guests: int = 0
    sev_es_guests: int = 0
    sev_snp_guests: int = 0
    tdx_guests: int = 0
    namespaces: Mapping[str, int] = {}

    def __post_init__(self) -> None:
        for rule in self._broken_rules():
            raise SimulationError(rule)

    @property
    def numa_cells(self) -> int:
        """Number of NUMA cells."""
        return self.sockets if self.cells is None else self.cells

    @property
    def cell_kib(self) -> int:
        """Memory of each cell, KiB."""
        return self.memory_mb // self.numa_cells * KIB_IN_MIB

    @property
    def paged_kib(self) -> int:
        """Memory of each cell that is reserved for larger pages, KiB."""
        return sum(size * count for size, count in self.pages.items())

    @property
    def cpus(self) -> Iterator[HardwareThread]:
        """All threads by id: the first threads of all cores precede the second ones."""
        total = self.sockets * self.cores
        for thread in range(self.threads):
            for number in range(total):
                yield HardwareThread(
                    id=thread * total + number,
                    cell=number * self.numa_cells // total,
                    socket=number // self.cores,
                    core=number % self.cores,
                    siblings=tuple(range(number, total * self.threads, total)),
                )

    def _broken_rules(self) -> Iterator[str]:
        for name in ("sockets", "cores", "threads", "memory_mb", "numa_cells"):
            if getattr(self, name) < 1:
                yield f"{name} = {getattr(self, name)}: it must be at least 1"
        if self.sockets * self.cores * self.threads > MAX_CPU + 1:
            yield f"sockets, cores and threads make more than {MAX_CPU + 1} CPUs"
        if self.memory_mb > MAX_MEMORY_MB:
            yield f"memory_mb = {self.memory_mb}: it must be at most {MAX_MEMORY_MB}"
        for name, most in LIMITS.items():
            if not 0 <= getattr(self, name) <= most:
                yield f"{name} = {getattr(self, name)}: it must be from 0 to {most}"
        if self.sev_es_guests and self.sev_snp_guests:
            yield "guests with SEV-ES do not start on a host with SEV-SNP: choose one of them"
        if not re.fullmatch(r"[A-Za-z0-9.-]{1,255}", self.hostname):
            yield f"hostname {self.hostname!r}: only 255 letters, digits, - and . are allowed"
        for what, number in (("cores", self.sockets * self.cores), ("MB", self.memory_mb)):
            if number % self.numa_cells:
                yield (
                    f"{number} {what} cannot be spread evenly over {self.numa_cells} NUMA cells:"
                    " choose a number of cells that divides it"
                )
        for name, size in self.namespaces.items():
            if not re.fullmatch(r"[A-Za-z0-9_.-]+", name) or not 1 <= size <= MAX_MEMORY_MB:
                yield (
                    f"namespace {name}={size}: the name has letters, digits and _.-, and the size"
                    f" is from 1 to {MAX_MEMORY_MB} MB"
                )
        yield from self._broken_page_rules()

    def _broken_page_rules(self) -> Iterator[str]:
        for size, count in self.pages.items():
            if size <= SMALLEST_PAGE or size & (size - 1):
                yield f"pages of {size} KiB: the size must be a power of two above {SMALLEST_PAGE}"
            if count < 0:
                yield f"{count} pages of {size} KiB: the number must be at least 0"
        if self.paged_kib > self.cell_kib:
            yield f"the pages take {self.paged_kib} KiB of each cell, which has {self.cell_kib}"
