"""The order in which host cells are tried."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rtagent.numa.host_cells import CellCapacity


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
