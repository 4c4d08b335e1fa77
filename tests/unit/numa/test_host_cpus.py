"""The host's CPUs: configured sets, CPUs that are offline, idle siblings; and its cells."""

from decimal import Decimal

import pytest
from msgspec.structs import replace

from rtagent.errors import ConfigError
from rtagent.model.assignment import Assignment, CellAssignment
from rtagent.model.policy import Policy
from rtagent.model.topology import Cell
from rtagent.numa.host_cells import cell_limits
from rtagent.numa.host_cpus import check, cpus_without_cell, with_idle_siblings, with_managed_cpus
from tests.support.hosts import PINNING, TOPOLOGY
from tests.support.numa_hosts import cell, fit_guest, host, pinned, pins_of, topology

PARTLY = Cell(id=1, cpus=frozenset({4}), memory_mb=0, offline=frozenset({5, 6}))
THERE = topology(cell(0, threads=1), PARTLY)


def checked(dedicated=None, shared=None, **more):
    return check(host(THERE, dedicated, shared).policy, THERE, **more)


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
    siblings, sockets = tuple(map(frozenset, cores)), frozenset({number})
    places = {"siblings": siblings, "sockets": sockets, "offline": offline}
    return Cell(id=number, cpus=frozenset().union(*cores), memory_mb=1024, **places)


WHOLE = topology(of_cores(0, {0, 1}, {2, 3}), of_cores(1, {4, 5}, {6, 7}))
DEDICATED = frozenset({2, 3, 6, 7})


#: Its only thread that is online is observed as a core of its own, on socket 0.
BETWEEN = replace(of_cores(1, {4, 5}, {6}, {7}), sockets=frozenset({0, 1}))


@pytest.mark.parametrize(
    ("seen", "last"),
    [
        (topology(of_cores(0, {0, 1}, {2}, offline=frozenset({3})), WHOLE.cells[1]), WHOLE),
        # A CPU goes offline during the observation.
        (topology(WHOLE.cells[0], BETWEEN), WHOLE),
        # A libvirtd that was started while the CPUs were off does not report them at all.
        (topology(of_cores(0, {0, 1}), of_cores(1, {4, 5})), WHOLE),
        # A CPU comes back.
        (WHOLE, topology(of_cores(0, {0}, {2, 3}), WHOLE.cells[1])),
    ],
)
def test_managed_cpu_keeps_its_core_and_its_socket(seen, last):
    assert with_managed_cpus(seen, last, DEDICATED) == WHOLE


def test_topology_without_managed_cpus_is_as_observed():
    seen = topology(of_cores(0, {0, 1}, offline=frozenset({2, 3})), WHOLE.cells[1])
    assert with_managed_cpus(seen, WHOLE, frozenset()) is seen


def test_online_managed_cpus_that_are_in_no_cell():
    assert cpus_without_cell(replace(WHOLE, cpus=WHOLE.cpus | {8, 9}), frozenset({7, 8})) == {8}
    assert cpus_without_cell(WHOLE, DEDICATED) == frozenset()
    assert cpus_without_cell(replace(WHOLE, cells=()), DEDICATED) == frozenset()


def kept(cells, in_use=()):
    pins = {number: dict(enumerate(cpus)) for number, cpus in cells.items()}
    placed = (CellAssignment(id=n, memory=1, cpu_pinning=pinning) for n, pinning in pins.items())
    assignment = Assignment(cells=tuple(placed))
    made = with_idle_siblings(assignment, TOPOLOGY, PINNING, in_use)
    return [set(cell.cpuset_kept) for cell in made.cells]


def test_siblings_that_are_in_use_or_the_guests_own_are_not_kept():
    assert kept({0: [2], 1: [4, 6]}) == [{3}, {5, 7}]
    assert kept({1: [4, 6]}, in_use=[5]) == [{7}]
    assert kept({1: [4, 5]}) == [set()]


# --- cells ---


@pytest.mark.parametrize(
    ("cpu", "ram", "expected"),
    [(None, None, ("4.0", "1.5")), (1.1, None, ("1.1", "1.5")), (None, 0.9, ("4.0", "0.9"))],
)
def test_ratios_of_a_request_are_exact_and_those_of_the_host_are_the_others(cpu, ram, expected):
    host = Policy(cpu_allocation_ratio=Decimal("4.0"), ram_allocation_ratio=Decimal("1.5"))
    limits = cell_limits(cpu, ram, host)
    assert (str(limits.cpu_allocation_ratio), str(limits.ram_allocation_ratio)) == expected


def test_core_with_an_offline_thread_is_idle_if_the_other_is_free():
    partly = Cell(id=0, cpus=frozenset({4}), memory_mb=4096, offline=frozenset({5}))
    half = topology(cell(1, cores=1, threads=1, first=0), partly)
    answer = fit_guest(pinned(1, cpu_thread_policy="isolate"), host(half, "4-5"))
    assert pins_of(answer) == [{0: 4}]
