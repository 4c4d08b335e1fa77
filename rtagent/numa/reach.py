"""Reach: the CPUs and pages of a host that a guest could get, whichever placement is chosen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rtagent.model.base import Value
from rtagent.model.decision import Reason
from rtagent.numa.candidates import CandidateRow, candidate_matrix, page_sizes
from rtagent.numa.cpu_policies import ISOLATE
from rtagent.numa.host_cells import CellCapacity, CellLimits, HostCells, host_cells
from rtagent.numa.requirements import CellRequirements, NumaRequirements
from rtagent.numa.search import CellSearch, Nearness
from rtagent.numa.thread_policies import POLICIES

#: A cell, and the size of its pages in KiB.
PagePool = tuple[int, int]


class Reach(Value, frozen=True, kw_only=True):
    """What some placement of a guest would use.

    :ivar cpus: host CPUs, with those that it would keep idle. :ivar pages: pools of pages.
    """

    cpus: frozenset[int] = frozenset()
    pages: frozenset[PagePool] = frozenset()

    def __or__(self, other: Reach) -> Reach:
        return Reach(cpus=self.cpus | other.cpus, pages=self.pages | other.pages)


def reach(
    required: NumaRequirements, host: HostCells, limits: CellLimits, devices: Nearness | None = None
) -> Reach:
    """Return what the placements of a guest with NUMA cells can use, by the rules of `fit`.

    The guest fits, and is attached to no networks with an affinity.

    `fit` chooses one placement. Here every host cell counts on which a placement puts a guest cell,
    and there every CPU and every page size by which the guest cell fits. So a CPU may count that no
    placement has, because the others that it would need there are taken first.

    :param devices: as for `fit`.
    """
    cells = host_cells(host)
    matrix = candidate_matrix(required.by_cell(), cells, limits)
    reached, by_id = Reach(), {cell.id: cell for cell in cells}
    for place, guest in enumerate(required.by_cell()):
        for cell in _cells_of(place, matrix, devices):
            reached |= _within(guest, by_id[cell], limits)
    return reached


def _cells_of(
    place: int, matrix: Sequence[CandidateRow], devices: Nearness | None
) -> Iterator[int]:
    """Yield the host cells that a guest cell has in some placement. Those of a search that gave up
    are among them, because it is not known that there is none.
    """
    rows = [list(row.candidates) for row in matrix]
    for cell in rows[place]:
        search = CellSearch([*rows[:place], [cell], *rows[place + 1 :]], devices)
        if search.placement() is not None or search.gave_up:
            yield cell


def _within(guest: CellRequirements, cell: CellCapacity, limits: CellLimits) -> Reach:
    """Return what a guest cell can use of a host cell that it fits."""
    policy = POLICIES[guest.cpu_thread_policy]
    # The emulator's CPU need not be beside others, but it never shares an isolated core.
    anywhere = guest.reserved and guest.cpu_thread_policy != ISOLATE
    cores = cell.cores if guest.pcpus + guest.reserved else ()
    cpus = (core.free for core in cores if anywhere or policy.eligible(core))
    sizes: Iterator[int | Reason] = iter([min(cell.pages)] if cell.pages else [])
    if guest.pagesize is not None:
        sizes = page_sizes(guest, cell, limits)
    return Reach(
        cpus=frozenset[int]().union(*cpus),
        pages=frozenset((cell.id, size) for size in sizes if not isinstance(size, Reason)),
    )
