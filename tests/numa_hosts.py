"""Named host topologies, and guests in a few words."""

from __future__ import annotations

from rtagent.model.cpuset import parse_cpu_spec
from rtagent.model.flavor import Flavor, Image
from rtagent.model.numa_policy import NumaPolicy
from rtagent.model.numa_usage import NUMA_NOTHING, NumaUsage
from rtagent.model.topology import Cell, Topology
from rtagent.numa.constraints import Constraints, constraints
from rtagent.numa.fit import fit
from rtagent.numa.host import Host
from rtagent.numa.limits import CellLimits

SMALL, LARGE, HUGE = 4, 2048, 1048576


def cell(
    number: int,
    cores: int = 4,
    threads: int = 2,
    *,
    memory_mb: int = 8192,
    huge: dict[int, int] | None = None,
    socket: int | None = None,
    first: int | None = None,
) -> Cell:
    """A cell whose siblings are neighbours (0,1 2,3 ...).

    :param huge: pages by size; the rest of the memory is in pages of 4 KiB.
    """
    start = number * cores * threads if first is None else first
    cpus = range(start, start + cores * threads)
    pages = dict(huge or {})
    rest = memory_mb * 1024 - sum(size * count for size, count in pages.items())
    return Cell(
        id=number,
        cpus=frozenset(cpus),
        memory_mb=memory_mb,
        siblings=tuple(frozenset(cpus[n : n + threads]) for n in range(0, len(cpus), threads)),
        sockets=frozenset({number if socket is None else socket}),
        pages={SMALL: rest // SMALL, **pages},
    )


def topology(*cells: Cell) -> Topology:
    """A host of these cells."""
    return Topology(
        cpus=frozenset[int]().union(*(cell.cpus for cell in cells)),
        memory_mb=sum(cell.memory_mb for cell in cells),
        disk_mb=0,
        cells=cells,
    )


#: Two cells of four cores of two threads: CPUs 0-7 and 8-15; 8 GB each.
TWO_CELLS = topology(cell(0), cell(1))
#: The same without SMT: CPUs 0-3 and 4-7.
NO_SMT = topology(cell(0, threads=1), cell(1, threads=1))
#: One cell of two cores of four threads.
SMT4 = topology(cell(0, cores=2, threads=4))
#: Three cells of two CPUs without siblings: 0-1, 2-3, 4-5.
THREE_CELLS = topology(*(cell(n, cores=2, threads=1) for n in range(3)))
#: A cell of 1 GB in 2 MiB pages, 2 GB in 1 GiB pages, 5 GB in small ones; another, all small.
PAGES = topology(cell(0, huge={LARGE: 512, HUGE: 2}), cell(1))


def host(
    there: Topology = TWO_CELLS,
    dedicated: str | None = None,
    shared: str | None = None,
    usage: NumaUsage = NUMA_NOTHING,
    **policy: object,
) -> Host:
    """A host with these CPU sets (as an operator writes them)."""
    sets = {
        "cpu_dedicated_set": None if dedicated is None else parse_cpu_spec(dedicated),
        "cpu_shared_set": None if shared is None else parse_cpu_spec(shared),
    }
    return Host(name="cn1", topology=there, usage=usage, policy=NumaPolicy(**sets, **policy))


def asked(
    vcpus: int = 2, memory_mb: int = 1024, image: dict[str, str] | None = None, **specs: str
) -> Constraints:
    """What a flavor asks for; ``cpu_policy="dedicated"`` is the extra spec ``hw:cpu_policy``, and
    ``numa_cpus_0`` is ``hw:numa_cpus.0``."""
    return constraints(flavor(vcpus, memory_mb, **specs), Image(properties=image or {}))


def flavor(vcpus: int = 2, memory_mb: int = 1024, **specs: str) -> Flavor:
    """A flavor with these extra specs."""
    named = {f"hw:{_dotted(name)}": value for name, value in specs.items()}
    return Flavor(vcpus=vcpus, memory_mb=memory_mb, extra_specs=named)


def pinned(vcpus: int = 2, memory_mb: int = 1024, **specs: str) -> Constraints:
    """The same, with dedicated CPUs."""
    return asked(vcpus, memory_mb, **{"cpu_policy": "dedicated", **specs})


def placed(wanted: Constraints, where: Host, limits: CellLimits | None = None, **more: object):
    """What `fit` answers."""
    return fit(wanted, where, limits or CellLimits(), **more)


def _dotted(name: str) -> str:
    stem, _, last = name.rpartition("_")
    return f"{stem}.{last}" if last.isdigit() else name
