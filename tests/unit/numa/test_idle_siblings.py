"""Thread siblings that a guest with the thread policy isolate keeps."""

from rtagent.model.assignment import Assignment, CellAssignment
from rtagent.numa.idle_siblings import with_idle_siblings
from tests.support.hosts import PINNING, TOPOLOGY


def kept(cells, in_use=()):
    assignment = Assignment(
        cells=tuple(
            CellAssignment(id=number, memory=1, cpu_pinning=dict(enumerate(cpus)))
            for number, cpus in cells.items()
        )
    )
    made = with_idle_siblings(assignment, TOPOLOGY, PINNING, in_use)
    return [set(cell.cpuset_kept) for cell in made.cells]


def test_siblings_of_each_cell_are_kept():
    assert kept({0: [2], 1: [4, 6]}) == [{3}, {5, 7}]


def test_cpus_in_use_and_own_cpus_are_not_kept():
    assert kept({1: [4, 6]}, in_use=[5]) == [{7}]
    assert kept({1: [4, 5]}) == [set()]
