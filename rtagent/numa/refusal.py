"""Explain why a guest does not fit: the requested resource, its place, and what is available."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rtagent.model.cpuset import format_cpu_spec
from rtagent.model.decision import Reason, ReasonCode
from rtagent.model.pages import format_request
from rtagent.numa.candidates import CandidateRow
from rtagent.numa.cpu_policies import EMULATOR_SHARE
from rtagent.numa.host_cells import Host
from rtagent.numa.networks import Network
from rtagent.numa.requirements import NumaRequirements
from rtagent.numa.search import Devices, Search, deficient

DEDICATED_OPTION = "[compute] cpu_dedicated_set"
NO_FILES = "[libvirt] file_backed_memory = 0"
SHARED_OPTION = "[compute] cpu_shared_set"


def not_configured(required: NumaRequirements, host: Host) -> Iterator[Reason]:
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
    host: Host,
    devices: Devices | None,
    search: Search,
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
    preferred = Search([list(row.candidates) for row in matrix]).placement()
    if devices is not None and preferred is not None:
        yield from devices.refusal(preferred)
        far = (network.cells for network in networks if network.cells.isdisjoint(preferred))
        yield from _unfit(matrix, frozenset[int]().union(*far))


def _page_size_refusals(required: NumaRequirements, host: Host) -> Iterator[Reason]:
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
    reasons = (row.reasons[cell] for row in rows for cell in row.reasons if cell in cells)
    yield from dict.fromkeys(reason for each in reasons for reason in each)


def _cells(code: ReasonCode, requested: int, available: int, where: str) -> Reason:
    return Reason(
        code=code,
        resource="NUMA_CELL",
        where=where,
        requested=requested,
        available=available,
        unit="cells",
    )


def _unset(resource: str, requested: int, unit: str, option: str, host: Host) -> Reason:
    return Reason(
        code=ReasonCode.NOT_CONFIGURED,
        resource=resource,
        where=host.name,
        requested=requested,
        available=0,
        unit=unit,
        option=option,
    )
