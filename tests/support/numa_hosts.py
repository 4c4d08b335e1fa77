"""Hosts with NUMA cells, guests to fit onto them, and what the fit returned."""

from rtagent.model.assignment import Assignment
from rtagent.model.cpuset import parse_cpu_spec
from rtagent.model.decision import ReasonCode, Refused
from rtagent.model.domain_usage import Occupancy
from rtagent.model.policy import NumaPolicy
from rtagent.model.request import Flavor
from rtagent.model.topology import Cell, Topology
from rtagent.model.usage import NUMA_NOTHING, NumaUsage
from rtagent.numa.fit import Fitted, fit
from rtagent.numa.host_cells import CellLimits, HostCells
from rtagent.numa.requirements import NumaRequirements, numa_requirements

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
    """Make a cell whose thread siblings have adjacent numbers (0,1 2,3 ...).

    :param huge: pages by size; the rest of the memory is in pages of 4 KiB.
    :param first: its first CPU; None: CPUs are numbered as if all cells were like this one.
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
    """Make a host of these cells."""
    return Topology(
        cpus=frozenset[int]().union(*(cell.cpus for cell in cells)),
        memory_mb=sum(cell.memory_mb for cell in cells),
        disk_mb=0,
        cells=cells,
    )


#: One cell of four cores of two threads: CPUs 0-7; 8 GB.
ONE_CELL = topology(cell(0))
#: Two cells of four cores of two threads: CPUs 0-7 and 8-15; 8 GB each.
TWO_CELLS = topology(cell(0), cell(1))
#: The same without SMT: CPUs 0-3 and 4-7.
NO_SMT = topology(cell(0, threads=1), cell(1, threads=1))
#: One cell of two cores of four threads.
SMT4 = topology(cell(0, cores=2, threads=4))
#: Three cells of two CPUs without siblings: 0-1, 2-3, 4-5.
THREE_CELLS = topology(*(cell(n, cores=2, threads=1) for n in range(3)))
#: A cell with 1 GB in 2 MiB pages, 2 GB in 1 GiB pages and 5 GB in small ones; another with small
#: pages only.
PAGES = topology(cell(0, huge={LARGE: 512, HUGE: 2}), cell(1))


def host(
    there: Topology = TWO_CELLS,
    dedicated: str | None = None,
    shared: str | None = None,
    usage: NumaUsage = NUMA_NOTHING,
    **policy: object,
) -> HostCells:
    """Make a host with these CPU sets, as an operator writes them."""
    sets = {
        "cpu_dedicated_set": None if dedicated is None else parse_cpu_spec(dedicated),
        "cpu_shared_set": None if shared is None else parse_cpu_spec(shared),
    }
    return HostCells(name="cn1", topology=there, usage=usage, policy=NumaPolicy(**sets, **policy))


def pinned_usage(cpus: str) -> NumaUsage:
    """Return the usage of a domain that is confined to these host CPUs."""
    return Occupancy(pcpus=parse_cpu_spec(cpus)).usage


def flavor(vcpus: int = 2, memory_mb: int = 1024, **specs: str) -> Flavor:
    """Make a flavor; ``cpu_policy="dedicated"`` is its extra spec ``hw:cpu_policy``, and
    ``numa_cpus_0`` is ``hw:numa_cpus.0``."""
    named = {f"hw:{_dotted(name)}": value for name, value in specs.items()}
    return Flavor(vcpus=vcpus, memory_mb=memory_mb, extra_specs=named)


def required(vcpus: int = 2, memory_mb: int = 1024, **specs: str) -> NumaRequirements:
    """Return what a flavor with these extra specs requires."""
    return numa_requirements(vcpus, memory_mb, flavor(vcpus, memory_mb, **specs).extra_specs, {})


def pinned(vcpus: int = 2, memory_mb: int = 1024, **specs: str) -> NumaRequirements:
    """Return what a flavor with dedicated CPUs and these extra specs requires."""
    return required(vcpus, memory_mb, **{"cpu_policy": "dedicated", **specs})


def fit_guest(
    guest: NumaRequirements, where: HostCells, limits: CellLimits | None = None, **more: object
) -> Fitted | Refused:
    """Fit a guest to a host, by default without overcommit."""
    return fit(guest, where, limits or CellLimits(), **more)


def assigned_to(result: Fitted | Refused) -> Assignment:
    """Return the assignment of a successful fit."""
    assert isinstance(result, Fitted), str(result)
    return result.assignment


def cells_of(result: Fitted | Refused) -> list[int]:
    """Return the host cell of each guest cell."""
    return [one.id for one in assigned_to(result).cells]


def pins_of(result: Fitted | Refused) -> list[dict[int, int]]:
    """Return the host CPU of each dedicated vCPU, by guest cell."""
    return [dict(one.cpu_pinning) for one in assigned_to(result).cells]


def reasons_of(result: Fitted | Refused) -> list[tuple[ReasonCode, str, str]]:
    """Return code, resource and place of each reason of a refusal."""
    assert isinstance(result, Refused)
    return [(reason.code, reason.resource, reason.where) for reason in result.reasons]


def _dotted(name: str) -> str:
    stem, _, last = name.rpartition("_")
    return f"{stem}.{last}" if last.isdigit() else name
