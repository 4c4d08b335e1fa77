"""The capacity of host cells, and the limits on it."""

from decimal import Decimal

import pytest

from rtagent.model.policy import Policy
from rtagent.model.topology import Cell
from rtagent.numa.host_cells import CellLimits, cell_limits
from tests.support.numa_hosts import (
    ONE_CELL,
    assigned_to,
    cell,
    fit_guest,
    host,
    pinned,
    pinned_usage,
    pins_of,
    required,
    topology,
)

HOST = Policy(cpu_allocation_ratio=Decimal("4.0"), ram_allocation_ratio=Decimal("1.5"))


def test_ratios_of_the_host_apply_unless_the_request_sets_others():
    advertised = CellLimits(cpu_allocation_ratio=Decimal(4), ram_allocation_ratio=Decimal("1.5"))
    assert cell_limits(None, None, HOST) == advertised


@pytest.mark.parametrize(
    ("cpu", "ram", "expected"),
    [(1.1, 0.9, ("1.1", "0.9")), (1.1, None, ("1.1", "1.5")), (None, 0.9, ("4", "0.9"))],
)
def test_ratios_are_exact_decimals(cpu, ram, expected):
    limits = cell_limits(cpu, ram, HOST)
    assert (limits.cpu_allocation_ratio, limits.ram_allocation_ratio) == tuple(
        map(Decimal, expected)
    )


def test_core_with_an_offline_thread_is_idle_if_the_other_is_free():
    half = topology(
        cell(1, cores=1, threads=1, first=0),
        Cell(id=0, cpus=frozenset({4}), memory_mb=4096, offline=frozenset({5})),
    )
    answer = fit_guest(pinned(1, cpu_thread_policy="isolate"), host(half, "4-5"))
    assert pins_of(answer) == [{0: 4}]


def test_pinned_cpu_that_has_joined_the_shared_set_is_not_shared_yet():
    where = host(ONE_CELL, "4-7", "0-3", usage=pinned_usage("2"))
    (one,) = assigned_to(fit_guest(required(numa_nodes="1"), where)).cells
    assert one.shared_pcpus == {0, 1, 3}
