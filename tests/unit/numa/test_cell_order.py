"""The order in which host cells are tried."""

from rtagent.model.usage import NumaUsage
from tests.support.numa_hosts import THREE_CELLS, cells_of, fit_guest, host, pinned, required

USED = NumaUsage(pinned={0: 1}, vcpus={0: 1}, memory_mb={0: 512})


def test_guests_spread_over_the_cells_by_default():
    where = host(THREE_CELLS, "0-5", usage=USED)
    assert cells_of(fit_guest(pinned(1), where)) == [1]


def test_packing_fills_one_cell_after_the_other():
    where = host(THREE_CELLS, "0-5", usage=USED, packing=True)
    assert cells_of(fit_guest(pinned(1), where)) == [0]


def test_shared_guests_go_where_the_fewest_vcpus_are():
    where = host(THREE_CELLS, usage=NumaUsage(vcpus={0: 1, 1: 1}))
    assert cells_of(fit_guest(required(1, numa_nodes="1"), where)) == [2]


def test_free_memory_decides_between_cells_with_equal_cpus():
    where = host(THREE_CELLS, usage=NumaUsage(memory_mb={0: 10, 2: 10}))
    assert cells_of(fit_guest(required(1, numa_nodes="1"), where)) == [1]


def test_equal_cells_keep_the_order_of_the_host():
    assert cells_of(fit_guest(pinned(1), host(THREE_CELLS, "0-5"))) == [0]


def test_guest_with_as_many_cells_as_the_host_takes_them_in_the_hosts_order():
    where = host(THREE_CELLS, "0-5", usage=NumaUsage(memory_mb={0: 10}))
    guest = pinned(3, 3072, numa_nodes="3")
    assert cells_of(fit_guest(guest, where)) == [0, 1, 2]
