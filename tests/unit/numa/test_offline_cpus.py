"""The topology of a host on which CPUs are switched off to save power."""

from msgspec.structs import replace

from rtagent.model.topology import Cell, Topology
from rtagent.numa.offline_cpus import cells_contain, cpus_without_cell, with_managed_cpus


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


def test_offline_cpu_keeps_its_core_and_its_socket():
    seen = topology(
        cell(0, {0, 1}, {2}, offline=frozenset({3})),
        replace(cell(1, {4, 5}, offline=frozenset({6, 7})), sockets=frozenset({1})),
    )
    assert with_managed_cpus(seen, WHOLE, DEDICATED) == WHOLE


def test_cpu_that_goes_offline_during_the_observation():
    """It is reported as a core of its own on socket 0."""
    between = replace(cell(1, {4, 5}, {6}, {7}), sockets=frozenset({0, 1}))
    seen = topology(cell(0, {0, 1}, {2, 3}), between)
    assert with_managed_cpus(seen, WHOLE, DEDICATED) == WHOLE


def test_offline_cpu_that_is_not_reported_at_all():
    """As by a libvirtd that was started while the CPU was off."""
    assert with_managed_cpus(topology(cell(0, {0, 1}), cell(1, {4, 5})), WHOLE, DEDICATED) == WHOLE


def test_unmanaged_cpu_stays_offline():
    seen = topology(cell(0, {0}, {2, 3}, offline=frozenset({1})), WHOLE.cells[1])
    found = with_managed_cpus(seen, WHOLE, DEDICATED)
    assert found == seen


def test_new_cpu_is_as_observed():
    seen = topology(WHOLE.cells[0], cell(1, {4, 5}, {8}, offline=frozenset({6, 7})))
    found = with_managed_cpus(seen, WHOLE, DEDICATED).cells[1]
    assert found.siblings == (frozenset({4, 5}), frozenset({6, 7}), frozenset({8}))
    assert found.cpus == {4, 5, 6, 7, 8}


def test_cpu_that_comes_back_has_its_sibling_again():
    half = replace(WHOLE, cpus=WHOLE.cpus - {1}, cells=(cell(0, {0}, {2, 3}), WHOLE.cells[1]))
    assert with_managed_cpus(WHOLE, half, DEDICATED) == WHOLE


def test_memory_is_as_observed():
    more = replace(WHOLE.cells[0], memory_mb=4096)
    assert (
        with_managed_cpus(topology(more, WHOLE.cells[1]), WHOLE, DEDICATED).cells[0].memory_mb
        == 4096
    )


def test_topology_without_managed_cpus_is_as_observed():
    seen = topology(cell(0, {0, 1}, offline=frozenset({2, 3})), WHOLE.cells[1])
    assert with_managed_cpus(seen, WHOLE, frozenset()) is seen


def test_online_managed_cpus_that_are_in_no_cell():
    assert cpus_without_cell(replace(WHOLE, cpus=WHOLE.cpus | {8, 9}), frozenset({7, 8})) == {8}
    assert cpus_without_cell(WHOLE, DEDICATED) == frozenset()
    assert cpus_without_cell(replace(WHOLE, cells=()), DEDICATED) == frozenset()


def test_cells_contain_cpus():
    assert cells_contain(WHOLE, frozenset({2, 7}))
    assert not cells_contain(WHOLE, frozenset({2, 8}))
