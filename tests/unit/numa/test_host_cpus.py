"""The host's CPUs: configured sets, CPUs that are offline, idle siblings."""

import pytest
from msgspec.structs import replace

from rtagent.errors import ConfigError
from rtagent.model.assignment import Assignment, CellAssignment
from rtagent.model.topology import Cell
from rtagent.numa.host_cpus import (
    cells_contain,
    check,
    cpus_without_cell,
    with_idle_siblings,
    with_managed_cpus,
)
from tests.support.hosts import PINNING, TOPOLOGY
from tests.support.numa_hosts import cell, host, topology

THERE = topology(
    cell(0, threads=1), Cell(id=1, cpus=frozenset({4}), memory_mb=0, offline=frozenset({5, 6}))
)


def checked(dedicated=None, shared=None, **more):
    return check(host(THERE, dedicated, shared).policy, THERE, **more)


@pytest.mark.parametrize(
    ("dedicated", "shared"), [(None, None), ("0-3", None), (None, "4"), ("0-2", "3-4")]
)
def test_valid_sets(dedicated, shared):
    assert checked(dedicated, shared) == set()


@pytest.mark.parametrize(
    ("dedicated", "shared", "message"),
    [
        ("0-2", "2-3", "[compute] cpu_dedicated_set = 0-2: CPUs 2 are in cpu_shared_set, too"),
        ("0,7-8", None, "[compute] cpu_dedicated_set = 0,7-8: this host has no CPUs 7-8"),
        (None, "4-5", "[compute] cpu_shared_set = 4-5: CPUs 5 are offline"),
        ("^0", None, "[compute] cpu_dedicated_set = : no CPU is left in it"),
    ],
)
def test_invalid_sets(dedicated, shared, message):
    with pytest.raises(ConfigError) as refused:
        checked(dedicated, shared)
    assert str(refused.value) == message


def test_claimed_cpus_that_vanished_are_returned():
    assert checked("0,5,9", claimed=frozenset({5, 9})) == {5, 9}


def test_claimed_cpus_do_not_excuse_others():
    with pytest.raises(ConfigError, match="CPUs 6 are offline"):
        checked("5-6", claimed=frozenset({5}))


@pytest.mark.parametrize("sets", [{"dedicated": "0"}, {"shared": "0"}])
def test_reserved_cpus_cannot_be_combined_with_sets(sets):
    with pytest.raises(ConfigError, match="reserved_host_cpus = 1: cannot be combined"):
        checked(**sets, reserved_host_cpus=1)
    assert checked(reserved_host_cpus=1) == set()


def of_cores(number: int, *cores: set[int], offline: frozenset[int] = frozenset()) -> Cell:
    return Cell(
        id=number,
        cpus=frozenset().union(*cores),
        offline=offline,
        memory_mb=1024,
        siblings=tuple(frozenset(core) for core in cores),
        sockets=frozenset({number}),
    )


WHOLE = topology(of_cores(0, {0, 1}, {2, 3}), of_cores(1, {4, 5}, {6, 7}))
DEDICATED = frozenset({2, 3, 6, 7})


def test_offline_cpu_keeps_its_core_and_its_socket():
    seen = topology(
        of_cores(0, {0, 1}, {2}, offline=frozenset({3})),
        replace(of_cores(1, {4, 5}, offline=frozenset({6, 7})), sockets=frozenset({1})),
    )
    assert with_managed_cpus(seen, WHOLE, DEDICATED) == WHOLE


def test_cpu_that_goes_offline_during_the_observation():
    """It is reported as a core of its own on socket 0."""
    between = replace(of_cores(1, {4, 5}, {6}, {7}), sockets=frozenset({0, 1}))
    seen = topology(of_cores(0, {0, 1}, {2, 3}), between)
    assert with_managed_cpus(seen, WHOLE, DEDICATED) == WHOLE


def test_offline_cpu_that_is_not_reported_at_all():
    """As by a libvirtd that was started while the CPU was off."""
    assert (
        with_managed_cpus(topology(of_cores(0, {0, 1}), of_cores(1, {4, 5})), WHOLE, DEDICATED)
        == WHOLE
    )


def test_unmanaged_cpu_stays_offline():
    seen = topology(of_cores(0, {0}, {2, 3}, offline=frozenset({1})), WHOLE.cells[1])
    found = with_managed_cpus(seen, WHOLE, DEDICATED)
    assert found == seen


def test_new_cpu_is_as_observed():
    seen = topology(WHOLE.cells[0], of_cores(1, {4, 5}, {8}, offline=frozenset({6, 7})))
    found = with_managed_cpus(seen, WHOLE, DEDICATED).cells[1]
    assert found.siblings == (frozenset({4, 5}), frozenset({6, 7}), frozenset({8}))
    assert found.cpus == {4, 5, 6, 7, 8}


def test_cpu_that_comes_back_has_its_sibling_again():
    half = replace(WHOLE, cpus=WHOLE.cpus - {1}, cells=(of_cores(0, {0}, {2, 3}), WHOLE.cells[1]))
    assert with_managed_cpus(WHOLE, half, DEDICATED) == WHOLE


def test_topology_without_managed_cpus_is_as_observed():
    seen = topology(of_cores(0, {0, 1}, offline=frozenset({2, 3})), WHOLE.cells[1])
    assert with_managed_cpus(seen, WHOLE, frozenset()) is seen


def test_online_managed_cpus_that_are_in_no_cell():
    assert cpus_without_cell(replace(WHOLE, cpus=WHOLE.cpus | {8, 9}), frozenset({7, 8})) == {8}
    assert cpus_without_cell(WHOLE, DEDICATED) == frozenset()
    assert cpus_without_cell(replace(WHOLE, cells=()), DEDICATED) == frozenset()


def test_cells_contain_cpus():
    assert cells_contain(WHOLE, frozenset({2, 7}))
    assert not cells_contain(WHOLE, frozenset({2, 8}))


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
