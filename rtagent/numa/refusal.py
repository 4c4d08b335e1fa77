"""Why a guest does not fit: what was asked for where, and what was there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rtagent.model.cpuset import format_cpu_spec
from rtagent.model.decision import Reason, ReasonCode
from rtagent.numa import emulator
from rtagent.numa.constraints import Constraints
from rtagent.numa.devices import Devices
from rtagent.numa.host import Host
from rtagent.numa.search import Search, deficient
from rtagent.numa.table import Row

DEDICATED_OPTION = "[compute] cpu_dedicated_set"
SHARED_OPTION = "[compute] cpu_shared_set"


def not_offered(asked: Constraints, host: Host) -> Iterator[Reason]:
    """What the host has nowhere, whatever else runs on it."""
    policy, online = host.policy, host.topology.cpus
    if asked.pcpus and not policy.dedicated(online):
        yield _unset("PCPU", asked.pcpus, "CPUs", DEDICATED_OPTION, host)
    if asked.vcpus and not policy.shared(online):
        yield _unset("VCPU", asked.vcpus, "vCPUs", SHARED_OPTION, host)
    sharing = asked.emulator_threads_policy == emulator.SHARE
    if sharing and asked.realtime and not policy.shared(online):
        # Among realtime vCPUs the emulator would starve.
        yield _unset("emulator threads", 1, "place", SHARED_OPTION, host)
    cells = host.topology.cells
    if len(asked.cells) > len(cells):
        code = ReasonCode.EXCEEDS_HOST if cells else ReasonCode.NOT_OFFERED
        yield _cells(code, len(asked.cells), len(cells), host.name)


def unplaced(
    rows: Sequence[Row], host: Host, devices: Devices | None, search: Search
) -> Iterator[Reason]:
    """Why a search over these rows found no placement."""
    crowded = deficient([list(row.slots) for row in rows])
    if crowded:
        yield from _crowded([rows[place] for place in sorted(crowded)])
        return
    if search.gave_up:
        yield _cells(ReasonCode.UNDECIDED, len(rows), 0, host.name)
    preferred = Search([list(row.slots) for row in rows]).placement()
    if devices is not None and preferred is not None:
        yield from devices.refusal(preferred)


def _crowded(rows: Sequence[Row]) -> Iterator[Reason]:
    """Guest cells that have fewer host cells to go to than they are: why none of the others."""
    fit = frozenset(cell for row in rows for cell in row.slots)
    if fit:
        where = f"cells {format_cpu_spec(fit)}"
        yield _cells(ReasonCode.INSUFFICIENT, len(rows), len(fit), where)
    unfit = (row.reasons[cell] for row in rows for cell in row.reasons if cell not in fit)
    yield from dict.fromkeys(reason for reasons in unfit for reason in reasons)


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
