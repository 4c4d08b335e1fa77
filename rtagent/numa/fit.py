"""Fit a guest to a host: the only function that assigns CPUs, cells and pages.

It is pure and stable: the same arguments give the same result. The candidate matrix has the
resources that each guest cell would take from each host cell. The search then chooses a host cell
for each guest cell.
"""

from collections.abc import Iterator, Sequence
from itertools import chain

from msgspec.structs import replace

from rtagent.model.assignment import Assignment, CellAssignment
from rtagent.model.base import Value
from rtagent.model.cpuset import format_cpu_spec
from rtagent.model.decision import Reason, ReasonCode, Refused, refuse
from rtagent.model.units import format_request
from rtagent.numa.candidates import CandidateRow, CellCandidate, candidate_matrix
from rtagent.numa.cpu_policies import EMULATOR_ISOLATE, EMULATOR_SHARE, SHARED
from rtagent.numa.host_cells import CellCapacity, CellLimits, HostCells, host_cells
from rtagent.numa.requirements import DescribedCell, NumaRequirements
from rtagent.numa.search import (
    STEPS,
    CellSearch,
    Nearness,
    NearNetworks,
    Network,
    RequestedDevices,
    deficient,
    networks_with_affinity,
)

DEDICATED_OPTION = "[compute] cpu_dedicated_set"
NO_FILES = "[libvirt] file_backed_memory = 0"
SHARED_OPTION = "[compute] cpu_shared_set"


class Fitted(Value, frozen=True):
    """A successful fit and the assignment that it chose."""

    assignment: Assignment


def fit(
    required: NumaRequirements,
    host: HostCells,
    limits: CellLimits,
    devices: RequestedDevices | None = None,
    steps: int = STEPS,
) -> Fitted | Refused:
    """Fit a guest to a host. If it does not fit, the refusal has every reason.

    :param devices: the devices that the guest requests, or should be placed apart from; None: the
        host has no devices.
    :param steps: the limit on the steps of the search for a placement that the devices accept. At
        the limit the search gives up, and the refusal says so (`ReasonCode.UNDECIDED`).
    """
    reasons = tuple(not_configured(required, host))
    if reasons:
        return refuse(reasons)
    cells = _cells_to_try(required, host, devices) if required.cells else ()
    matrix = candidate_matrix(required.by_cell(), cells, limits)
    networks = networks_with_affinity(required.networks, host.policy.networks) if cells else ()
    near = NearNetworks(networks, devices) if networks else devices
    search = CellSearch([list(row.candidates) for row in matrix], near, steps)
    placement = search.placement()
    if placement is None:
        return refuse(no_placement(matrix, host, near, search, networks))
    placed = [
        _placed(guest, cell, row.candidates[cell])
        for guest, cell, row in zip(required.cells, placement, matrix, strict=True)
    ]
    return Fitted(completed(placed, required, host))


def _cells_to_try(
    required: NumaRequirements, host: HostCells, devices: RequestedDevices | None
) -> Sequence[CellCapacity]:
    """Return the host's cells in the order in which to try them. Equal cells keep their order.

    A guest with as many cells as the host takes the cells in the host's order. Otherwise cells of a
    low `RequestedDevices.weight` come first. Of these, cells with the most capacity left come
    first, so that guests spread over the host; with the option
    ``packing_host_numa_cells_allocation_strategy`` cells with the least, so that they fill up one
    by one. Capacity means CPUs (those free for pinning, or fewer shared vCPUs in use), then MB.
    """
    cells = host_cells(host)
    if len(cells) == len(required.cells):
        return cells
    pinning = required.cpu_policy != SHARED
    sign = 1 if host.policy.packing else -1

    def key(cell: CellCapacity) -> tuple[int, int, int]:
        weight = devices.weight(cell.id) if devices is not None else 0
        cpus = cell.free_pcpus if pinning else -cell.vcpus
        return weight, sign * cpus, sign * (cell.memory_mb - cell.memory_used)

    return sorted(cells, key=key)


def completed(
    cells: Sequence[CellAssignment], required: NumaRequirements, host: HostCells
) -> Assignment:
    """Return the assignment of a guest that is placed. What a placement leaves open follows from
    the guest's requirements and the host's configuration: where its shared vCPUs and its emulator
    run, and how its memory is backed.

    :param cells: of the guest: memory, page sizes, host CPUs of its own, and its shared vCPUs.
    """
    by_id = {cell.id: cell for cell in host_cells(host)} if cells else {}
    assigned = tuple(_on_host(cell, by_id[cell.id]) if cell.id in by_id else cell for cell in cells)
    shared = frozenset[int]().union(*(cell.shared for cell in by_id.values()))
    return Assignment(
        cells=assigned,
        shared_pcpus=frozenset() if assigned else _floating(host),
        emulator_pcpus=_emulator(required, assigned, shared),
        realtime=required.realtime,
        realtime_priority=host.policy.realtime_scheduler_priority,
        cpu_topology=required.cpu_topology,
        locked_memory=required.locked_memory,
        file_backed=bool(host.policy.file_backed_memory_mb),
    )


def _placed(guest: DescribedCell, cell: int, candidate: CellCandidate) -> CellAssignment:
    return CellAssignment(
        id=cell,
        memory=guest.memory,
        cpuset=guest.cpuset,
        cpu_pinning=dict(zip(sorted(guest.pcpuset), candidate.cpus.pcpus, strict=True)),
        cpuset_reserved=candidate.cpus.reserved,
        cpuset_kept=candidate.cpus.kept,
        pagesize=candidate.pagesize,
    )


def _on_host(placed: CellAssignment, cell: CellCapacity) -> CellAssignment:
    size = placed.pagesize
    return replace(
        placed,
        shared_pcpus=cell.shared if placed.cpuset else frozenset(),
        hugepages=size is not None and size > min(cell.pages, default=size),
    )


def _floating(host: HostCells) -> frozenset[int]:
    """Return the CPUs on which a guest without cells floats: the shared CPUs, if the operator lists
    any.
    """
    if host.policy.cpu_shared_set is None:
        return frozenset()
    return host.policy.shared(host.topology.cpus)


def _emulator(
    required: NumaRequirements, cells: Sequence[CellAssignment], shared: frozenset[int]
) -> frozenset[int]:
    """Return the CPUs of the emulator: its own CPU; the host's shared CPUs; or those of the vCPUs
    except realtime ones, next to which the emulator would starve.

    With the policy ``share`` on a host without shared CPUs, the first of these vCPUs alone is next
    to the emulator of a realtime guest.
    """
    if required.emulator_threads_policy == EMULATOR_ISOLATE and cells:
        return cells[0].cpuset_reserved
    shares = required.emulator_threads_policy == EMULATOR_SHARE
    if shares and cells and shared:
        return shared
    vcpus = sorted(
        (vcpu, number)
        for number, cell in enumerate(cells)
        for vcpu in cell.vcpus - required.realtime
    )
    neighbours = vcpus[:1] if shares and required.realtime else vcpus
    return frozenset(pcpu for vcpu, number in neighbours for pcpu in cells[number].pcpus_of(vcpu))


def not_configured(required: NumaRequirements, host: HostCells) -> Iterator[Reason]:
    """Return the requirements that the host could not meet even without any guests."""
    policy, online = host.policy, host.topology.cpus
    if required.pcpus and not policy.dedicated(online):
        yield _unset("PCPU", required.pcpus, "CPUs", DEDICATED_OPTION, host)
    if required.vcpus and not policy.shared(online):
        yield _unset("VCPU", required.vcpus, "vCPUs", SHARED_OPTION, host)
    shares = required.emulator_threads_policy == EMULATOR_SHARE
    if shares and required.only_realtime and not policy.shared(online):
        # Among realtime vCPUs the emulator would starve.
        yield _unset("emulator threads", 1, "place", SHARED_OPTION, host)
    if policy.file_backed_memory_mb:
        yield from _page_size_refusals(required, host)
    cells = host.topology.cells
    if len(required.cells) > len(cells):
        code = ReasonCode.EXCEEDS_HOST if cells else ReasonCode.NOT_OFFERED
        yield _cells(code, len(required.cells), len(cells), host.name)


def no_placement(
    matrix: Sequence[CandidateRow],
    host: HostCells,
    devices: Nearness | None,
    search: CellSearch,
    networks: Sequence[Network] = (),
) -> Iterator[Reason]:
    """Return why a search over this candidate matrix found no placement.

    :param networks: those with an affinity, which are a part of `devices`, too.
    """
    crowded = deficient([list(row.candidates) for row in matrix])
    if crowded:
        yield from _too_few_cells([matrix[place] for place in sorted(crowded)])
        return
    if search.gave_up:
        yield _cells(ReasonCode.UNDECIDED, len(matrix), 0, host.name)
    preferred = CellSearch([list(row.candidates) for row in matrix]).placement()
    if devices is not None and preferred is not None:
        yield from devices.refusal(preferred)
        far = (network.cells for network in networks if network.cells.isdisjoint(preferred))
        yield from _unfit(matrix, frozenset[int]().union(*far))


def _page_size_refusals(required: NumaRequirements, host: HostCells) -> Iterator[Reason]:
    """Return why the guest cannot have pages of an explicit size: its memory would be in a file."""
    for size in dict.fromkeys(cell.pagesize for cell in required.cells):
        memory = sum(cell.memory for cell in required.cells if cell.pagesize == size)
        if size is not None:
            yield _unset(f"{format_request(size)} pages", memory, "MB", NO_FILES, host)


def _too_few_cells(rows: Sequence[CandidateRow]) -> Iterator[Reason]:
    """Return why these guest cells, which together fit too few host cells, do not fit
    the others.
    """
    fitting = frozenset(cell for row in rows for cell in row.candidates)
    if fitting:
        where = f"cells {format_cpu_spec(fitting)}"
        yield _cells(ReasonCode.INSUFFICIENT, len(rows), len(fitting), where)
    yield from _unfit(rows, frozenset(cell for row in rows for cell in row.reasons) - fitting)


def _unfit(rows: Sequence[CandidateRow], cells: frozenset[int]) -> Iterator[Reason]:
    """Return why guest cells do not fit these host cells."""
    unfit = (row.reasons[cell] for row in rows for cell in row.reasons if cell in cells)
    yield from dict.fromkeys(chain.from_iterable(unfit))


def _cells(code: ReasonCode, requested: int, available: int, where: str) -> Reason:
    return Reason(
        code=code,
        resource="NUMA_CELL",
        where=where,
        requested=requested,
        available=available,
        unit="cells",
    )


def _unset(resource: str, requested: int, unit: str, option: str, host: HostCells) -> Reason:
    return Reason(
        code=ReasonCode.NOT_CONFIGURED,
        resource=resource,
        where=host.name,
        requested=requested,
        available=0,
        unit=unit,
        option=option,
    )
