"""Fit a guest to a host: the only function that assigns CPUs, cells and pages.

It is pure and stable: the same arguments give the same result. The candidate matrix has the
resources that each guest cell would take from each host cell. The search then chooses a host cell
for each guest cell.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rtagent.model.assignment import Assignment
from rtagent.model.base import Value
from rtagent.model.decision import Refused, refuse
from rtagent.numa.assign import assignment
from rtagent.numa.candidates import candidate_matrix
from rtagent.numa.cpu_policies import SHARED
from rtagent.numa.host_cells import CellCapacity, CellLimits, Host, host_cells
from rtagent.numa.networks import NearNetworks, networks_with_affinity
from rtagent.numa.refusal import no_placement, not_configured
from rtagent.numa.requirements import NumaRequirements
from rtagent.numa.search import STEPS, Devices, Search


def ordered(
    cells: Sequence[CellCapacity],
    packing: bool,
    pinning: bool,
    device_weight: Callable[[int], int] | None = None,
) -> list[CellCapacity]:
    """Return the host cells in the order in which to try them. Equal cells keep their order.

    :param packing: the value of ``packing_host_numa_cells_allocation_strategy``.
    :param pinning: the guest has dedicated CPUs.
    :param device_weight: returns the weight of a cell, by its id: see `Devices.weight`. Cells with
        a low weight come first. None: there are no devices.
    """
    policy = packed if packing else spread
    in_order = policy(cells, pinning)
    if device_weight is None:
        return in_order
    return sorted(in_order, key=lambda cell: device_weight(cell.id))


def packed(cells: Sequence[CellCapacity], pinning: bool) -> list[CellCapacity]:
    """Put the cell with the least capacity left first, so that cells fill up one by one."""
    return sorted(cells, key=lambda cell: _free(cell, pinning))


def spread(cells: Sequence[CellCapacity], pinning: bool) -> list[CellCapacity]:
    """Put the cell with the most capacity left first, so that guests spread over the host."""
    return sorted(cells, key=lambda cell: tuple(-free for free in _free(cell, pinning)))


def _free(cell: CellCapacity, pinning: bool) -> tuple[int, int]:
    """Return a sort key for the capacity that is left: first CPUs (those free for pinning, or fewer
    shared vCPUs in use), then MB.
    """
    cpus = cell.free_pcpus if pinning else -cell.vcpus
    return cpus, cell.memory_mb - cell.memory_used


class Fitted(Value, frozen=True):
    """A successful fit and the assignment that it chose."""

    assignment: Assignment


def fit(
    required: NumaRequirements,
    host: Host,
    limits: CellLimits,
    devices: Devices | None = None,
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
    search = Search([list(row.candidates) for row in matrix], near, steps)
    placement = search.placement()
    if placement is None:
        return refuse(no_placement(matrix, host, near, search, networks))
    chosen = [(cell, row.candidates[cell]) for cell, row in zip(placement, matrix, strict=True)]
    return Fitted(assignment(required, host, cells, chosen))


def _cells_to_try(
    required: NumaRequirements, host: Host, devices: Devices | None
) -> Sequence[CellCapacity]:
    """Return the host's cells in the order in which to try them.

    A guest with as many cells as the host takes the cells in the host's order.
    """
    cells = host_cells(host)
    if len(cells) == len(required.cells):
        return cells
    return ordered(
        cells,
        packing=host.policy.packing,
        pinning=required.cpu_policy != SHARED,
        device_weight=devices.weight if devices is not None else None,
    )
