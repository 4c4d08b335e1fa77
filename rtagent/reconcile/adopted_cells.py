"""The CPUs, cells and pages of a running domain, as the assignment that a claim records."""

from collections import Counter
from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from rtagent.errors import DomainNotAdoptable
from rtagent.model.assignment import Assignment, CellAssignment
from rtagent.model.base import Value
from rtagent.model.cpuset import format_cpu_spec
from rtagent.model.guest import GuestCell, GuestLayout
from rtagent.model.policy import NumaPolicy
from rtagent.model.topology import Topology


class _Cpus(Value, frozen=True, kw_only=True):
    """:ivar pinning: the host CPU of each dedicated vCPU.
    :ivar floating: the host CPUs of every other vCPU; empty: any.
    """

    pinning: Mapping[int, int]
    floating: Mapping[int, frozenset[int]]


def assignment_of(layout: GuestLayout, topology: Topology, policy: NumaPolicy) -> Assignment:
    """Return the assignment that describes a domain exactly.

    A vCPU is dedicated if it is pinned to one CPU of ``cpu_dedicated_set``.

    :raises DomainNotAdoptable: no claim on this host can describe it.
    """
    cpus = _cpus(layout, topology, policy)
    if all(cell.host is None for cell in layout.cells):
        shared, cells = _floating_anywhere(layout, cpus), tuple[CellAssignment, ...]()
    else:
        shared, cells = frozenset(), tuple(_cell(n, c, cpus) for n, c in enumerate(layout.cells))
        _check_complete(layout)
    own = frozenset(cpus.pinning.values())
    dedicated = policy.dedicated(topology.cpus)
    _check_known("its emulator", layout.emulator, topology, policy)
    return Assignment(
        cells=_with_reserved(cells, (layout.emulator - own) & dedicated, topology),
        shared_pcpus=shared,
        emulator_pcpus=layout.emulator if layout.emulator != shared else frozenset(),
        realtime=layout.realtime,
        realtime_priority=layout.realtime_priority,
        cpu_topology=layout.cpu_topology,
        locked_memory=layout.locked_memory and not layout.realtime,
        file_backed=layout.file_backed,
    )


def _cpus(layout: GuestLayout, topology: Topology, policy: NumaPolicy) -> _Cpus:
    dedicated = policy.dedicated(topology.cpus)
    pinning, floating = dict[int, int](), dict[int, frozenset[int]]()
    for vcpu in range(layout.usage.vcpus):
        pins = layout.pins.get(vcpu, frozenset())
        _check_known(f"vCPU {vcpu}", pins, topology, policy)
        if len(pins) == 1 and pins <= dedicated:
            pinning[vcpu] = min(pins)
        elif pins & dedicated:
            raise DomainNotAdoptable(
                f"vCPU {vcpu} runs on the host CPUs {format_cpu_spec(pins)}, some of which"
                " [compute] cpu_dedicated_set has: pin it to one of these, or to others"
            )
        else:
            floating[vcpu] = pins
    twice = [cpu for cpu, number in Counter(pinning.values()).items() if number > 1]
    if twice:
        raise DomainNotAdoptable(f"several of its vCPUs are pinned to host CPU {twice[0]}")
    return _Cpus(pinning=pinning, floating=floating)


def _check_known(what: str, pins: frozenset[int], topology: Topology, policy: NumaPolicy) -> None:
    """:raises DomainNotAdoptable: it is confined to CPUs that guests may not use."""
    known = policy.shared(topology.cpus) | policy.dedicated(topology.cpus)
    if others := pins - known:
        raise DomainNotAdoptable(
            f"{what} runs on host CPU {format_cpu_spec(others)}, which neither [compute]"
            " cpu_dedicated_set nor cpu_shared_set has: add it, or pin the domain elsewhere"
        )


def _floating_anywhere(layout: GuestLayout, cpus: _Cpus) -> frozenset[int]:
    """Return the host CPUs of a guest whose memory is bound to no host cell; empty: any.

    :raises DomainNotAdoptable: a claim without cells cannot describe it.
    """
    unbound = "its memory is bound to no single host cell: bind it with <numatune>, strictly"
    if layout.usage.occupancy.memory_mb:
        raise DomainNotAdoptable(
            "its memory is bound to several host cells: bind it to one or none"
        )
    if cpus.pinning:
        raise DomainNotAdoptable(f"its vCPUs are pinned, but {unbound}")
    if any(cell.pagesize is not None for cell in layout.cells):
        raise DomainNotAdoptable(f"it has pages of an explicit size, but {unbound}")
    if len(layout.cells) > 1:
        raise DomainNotAdoptable(f"it has {len(layout.cells)} guest cells, but {unbound}")
    if layout.realtime:
        raise DomainNotAdoptable("it has realtime vCPUs that are not pinned")
    return _common("its vCPUs", cpus.floating.values())


def _cell(number: int, cell: GuestCell, cpus: _Cpus) -> CellAssignment:
    if cell.host is None:
        raise DomainNotAdoptable(
            f"the memory of its guest cell {number} is bound to no single host cell"
        )
    floating = [vcpu for vcpu in cell.vcpus if vcpu in cpus.floating]
    return CellAssignment(
        id=cell.host,
        memory=cell.memory_mb,
        cpuset=frozenset(floating),
        shared_pcpus=_common(
            f"the vCPUs of guest cell {number}", (cpus.floating[vcpu] for vcpu in floating)
        ),
        cpu_pinning={vcpu: cpus.pinning[vcpu] for vcpu in cell.vcpus if vcpu in cpus.pinning},
        pagesize=cell.pagesize,
        hugepages=cell.pagesize is not None,
    )


def _common(what: str, sets: Iterable[frozenset[int]]) -> frozenset[int]:
    """Return the set that all of these are; empty: there is none.

    :raises DomainNotAdoptable: they differ.
    """
    different = tuple(dict.fromkeys(sets))
    if len(different) > 1:
        shown = (format_cpu_spec(cpus) or "any" for cpus in different[:2])
        raise DomainNotAdoptable(
            f"{what} run on different sets of host CPUs ({' and '.join(shown)}), and a claim"
            " has one set for them"
        )
    return different[0] if different else frozenset()


def _check_complete(layout: GuestLayout) -> None:
    """:raises DomainNotAdoptable: a vCPU is in no guest cell."""
    in_cells = frozenset[int]().union(*(cell.vcpus for cell in layout.cells))
    if missing := frozenset(range(layout.usage.vcpus)) - in_cells:
        raise DomainNotAdoptable(f"its vCPUs {format_cpu_spec(missing)} are in no guest cell")


def _with_reserved(
    cells: tuple[CellAssignment, ...], reserved: frozenset[int], topology: Topology
) -> tuple[CellAssignment, ...]:
    """Add the dedicated CPUs on which only the emulator runs to the guest's cells on their host
    cells.

    :raises DomainNotAdoptable: the guest has no cell there.
    """
    after, left = [], set(reserved)
    for cell in cells:
        host = next((each for each in topology.cells if each.id == cell.id), None)
        here = frozenset(left & host.cpus) if host is not None else frozenset[int]()
        left -= here
        after.append(replace(cell, cpuset_reserved=here) if here else cell)
    if left:
        raise DomainNotAdoptable(
            f"its emulator runs on the host CPUs {format_cpu_spec(left)} of [compute]"
            " cpu_dedicated_set, and the guest has no cell there"
        )
    return tuple(after)
