"""A host with CPUs that are off to save power is what it is when they run."""

from msgspec.structs import replace

from rtagent.model.topology import Cell, Topology
from rtagent.numa.powered import hidden, knows, powered


def cell(number: int, *cores: set[int], offline: frozenset[int] = frozenset()) -> Cell:
    return Cell(
        id=number,
        cpus=frozenset().union(*cores),
        offline=offline,
        memory_mb=1024,
        siblings=tuple(frozenset(core) for core in cores),
        sockets=frozenset({number}),
    )


def topology(*cells: Cell) -> Topology:
    cpus = frozenset().union(*(cell.cpus for cell in cells))
    return Topology(cpus=cpus, memory_mb=2048, disk_mb=1, cells=cells)


WHOLE = topology(cell(0, {0, 1}, {2, 3}), cell(1, {4, 5}, {6, 7}))
DEDICATED = frozenset({2, 3, 6, 7})


def test_what_is_off_counts_with_its_core_and_its_socket():
    seen = topology(
        cell(0, {0, 1}, {2}, offline=frozenset({3})),
        replace(cell(1, {4, 5}, offline=frozenset({6, 7})), sockets=frozenset({1})),
    )
    assert powered(seen, WHOLE, DEDICATED) == WHOLE


def test_a_cpu_that_goes_off_while_it_is_looked_at():
    """Told of like a core of its own on socket 0."""
    between = replace(cell(1, {4, 5}, {6}, {7}), sockets=frozenset({0, 1}))
    seen = topology(cell(0, {0, 1}, {2, 3}), between)
    assert powered(seen, WHOLE, DEDICATED) == WHOLE


def test_what_is_off_and_not_told_of_at_all():
    """By a libvirtd that was started while it was off."""
    assert powered(topology(cell(0, {0, 1}), cell(1, {4, 5})), WHOLE, DEDICATED) == WHOLE


def test_what_is_not_managed_is_off_when_it_is_off():
    seen = topology(cell(0, {0}, {2, 3}, offline=frozenset({1})), WHOLE.cells[1])
    found = powered(seen, WHOLE, DEDICATED)
    assert found == seen


def test_a_cpu_that_is_new():
    seen = topology(WHOLE.cells[0], cell(1, {4, 5}, {8}, offline=frozenset({6, 7})))
    found = powered(seen, WHOLE, DEDICATED).cells[1]
    assert found.siblings == (frozenset({4, 5}), frozenset({6, 7}), frozenset({8}))
    assert found.cpus == {4, 5, 6, 7, 8}


def test_a_cpu_that_comes_back_has_its_sibling_again():
    half = replace(WHOLE, cpus=WHOLE.cpus - {1}, cells=(cell(0, {0}, {2, 3}), WHOLE.cells[1]))
    assert powered(WHOLE, half, DEDICATED) == WHOLE


def test_memory_is_as_seen():
    more = replace(WHOLE.cells[0], memory_mb=4096)
    assert powered(topology(more, WHOLE.cells[1]), WHOLE, DEDICATED).cells[0].memory_mb == 4096


def test_nothing_managed_is_as_seen():
    seen = topology(cell(0, {0, 1}, offline=frozenset({2, 3})), WHOLE.cells[1])
    assert powered(seen, WHOLE, frozenset()) is seen


def test_cpus_that_run_in_no_cell_are_hidden():
    assert hidden(replace(WHOLE, cpus=WHOLE.cpus | {8, 9}), frozenset({7, 8})) == {8}
    assert hidden(WHOLE, DEDICATED) == frozenset()
    assert hidden(replace(WHOLE, cells=()), DEDICATED) == frozenset()


def test_what_cells_know():
    assert knows(WHOLE, frozenset({2, 7}))
    assert not knows(WHOLE, frozenset({2, 8}))
