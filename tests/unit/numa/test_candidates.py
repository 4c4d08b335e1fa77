"""Which host cells a guest cell fits: by its vCPUs, and by its memory and pages."""

from decimal import Decimal

import pytest

from rtagent.model.decision import ReasonCode, Refused
from rtagent.model.topology import Cell
from rtagent.model.usage import NumaUsage
from rtagent.numa.fit import Fitted
from rtagent.numa.host_cells import CellLimits
from tests.support.numa_hosts import (
    HUGE,
    LARGE,
    ONE_CELL,
    PAGES,
    TWO_CELLS,
    assigned_to,
    cell,
    fit_guest,
    host,
    pinned,
    reasons_of,
    required,
    topology,
)

LIMITS = CellLimits(cpu_allocation_ratio=Decimal("1.5"), ram_allocation_ratio=Decimal("1.5"))
#: 1 GB in 2 MiB pages, 2 GB in 1 GiB pages, 5 GB in small ones.
ALL_SIZES = topology(PAGES.cells[0])


def test_shared_vcpus_of_all_guests_stay_within_the_ratio():
    where = host(ONE_CELL, usage=NumaUsage(vcpus={0: 10}))
    assert isinstance(fit_guest(required(2, numa_nodes="1"), where, LIMITS), Fitted)
    (reason,) = fit_guest(required(3, numa_nodes="1"), where, LIMITS).reasons
    assert (reason.resource, reason.requested, reason.available) == ("VCPU", 3, 2)


def test_guest_cell_never_has_more_vcpus_than_the_host_cell_has_cpus():
    answer = fit_guest(required(9, 1024, numa_nodes="1"), host(ONE_CELL), LIMITS)
    assert reasons_of(answer) == [(ReasonCode.EXCEEDS_CELL, "VCPU", "cell 0")]


def test_ratio_limits_only_the_shared_vcpus_of_a_mixed_guest():
    where = host(ONE_CELL, "0-5", "6-7", usage=NumaUsage(vcpus={0: 2}))
    guest = required(5, cpu_policy="mixed", cpu_dedicated_mask="^0")
    assert isinstance(fit_guest(guest, where, LIMITS), Fitted)
    guest = required(5, cpu_policy="mixed", cpu_dedicated_mask="^0-1")
    assert reasons_of(fit_guest(guest, where, LIMITS)) == [
        (ReasonCode.INSUFFICIENT, "VCPU", "cell 0")
    ]


def test_ratio_below_one_does_not_limit_dedicated_cpus():
    half = CellLimits(cpu_allocation_ratio=Decimal("0.5"), ram_allocation_ratio=Decimal("0.5"))
    assert isinstance(fit_guest(pinned(8, 8192), host(ONE_CELL, "0-7"), half), Fitted)


def test_memory_of_all_guests_stays_within_the_ratio():
    where = host(ONE_CELL, usage=NumaUsage(memory_mb={0: 8192}))
    assert isinstance(fit_guest(required(1, 4096, numa_nodes="1"), where, LIMITS), Fitted)
    (reason,) = fit_guest(required(1, 4097, numa_nodes="1"), where, LIMITS).reasons
    assert (reason.resource, reason.requested, reason.available) == ("MEMORY_MB", 4097, 4096)


def test_guest_cell_never_has_more_memory_than_the_host_cell_has_in_small_pages():
    answer = fit_guest(required(1, 8193, numa_nodes="1"), host(ONE_CELL), LIMITS)
    assert reasons_of(answer) == [(ReasonCode.EXCEEDS_CELL, "MEMORY_MB", "cell 0")]
    huge = host(topology(cell(0, huge={HUGE: 6})))
    answer = fit_guest(required(1, 2049, numa_nodes="1"), huge, LIMITS)
    assert answer.reasons[0].available == 2048


@pytest.mark.parametrize("policy", [{}, {"cpu_policy": "mixed", "cpu_dedicated_mask": "0"}])
def test_memory_is_never_overcommitted_with_dedicated_cpus(policy):
    where = host(ONE_CELL, "0-3", "4-7", usage=NumaUsage(memory_mb={0: 8000}))
    assert isinstance(fit_guest(pinned(2, 192, **policy), where, LIMITS), Fitted)
    answer = fit_guest(pinned(2, 193, **policy), where, LIMITS)
    assert reasons_of(answer) == [(ReasonCode.INSUFFICIENT, "MEMORY_MB", "cell 0")]


@pytest.mark.parametrize(
    ("request_", "memory_mb", "size"),
    [
        ("small", 1024, 4),
        ("large", 1024, HUGE),
        ("large", 512, LARGE),
        ("any", 1000, LARGE),
        ("any", 1001, 4),
        ("2MB", 1024, LARGE),
        ("1048576", 2048, HUGE),
    ],
)
def test_largest_page_size_that_fits_is_taken(request_, memory_mb, size):
    guest = required(1, memory_mb, mem_page_size=request_)
    (one,) = assigned_to(fit_guest(guest, host(ALL_SIZES))).cells
    assert (one.pagesize, one.pages) == (size, memory_mb * 1024 // size)


def test_page_size_is_chosen_for_each_cell():
    guest = required(2, 4096, numa_nodes="2", mem_page_size="any")
    cells = assigned_to(fit_guest(guest, host(PAGES))).cells
    assert {one.id: one.pagesize for one in cells} == {0: HUGE, 1: 4}


def test_pages_are_never_overcommitted():
    generous = CellLimits(ram_allocation_ratio=Decimal(16))
    used = NumaUsage(pages={(0, HUGE): 1}, memory_mb={0: 1024})
    where = host(ALL_SIZES, usage=used)
    (reason,) = fit_guest(required(1, 2048, mem_page_size="1GB"), where, generous).reasons
    assert (reason.resource, reason.requested, reason.available) == ("1GiB pages", 2, 1)


@pytest.mark.parametrize("request_", [None, "small", "4", "4KB", "any"])
def test_ratio_below_one_limits_memory_in_the_smallest_pages(request_):
    limits = CellLimits(ram_allocation_ratio=Decimal("0.9"))
    specs = {"numa_nodes": "1"} if request_ is None else {"mem_page_size": request_}
    answer = fit_guest(required(1, 8192, **specs), host(TWO_CELLS), limits)
    assert [str(reason) for reason in answer.reasons] == [
        f"MEMORY_MB: 8192 MB requested at cell {number}, 7372 available" for number in (0, 1)
    ]
    assert isinstance(fit_guest(required(1, 7372, **specs), host(TWO_CELLS), limits), Fitted)


@pytest.mark.parametrize("request_", ["large", "any", "1GB"])
def test_no_ratio_limits_memory_in_large_pages(request_):
    limits = CellLimits(ram_allocation_ratio=Decimal("0.1"))
    guest = required(1, 2048, mem_page_size=request_)
    assert assigned_to(fit_guest(guest, host(ALL_SIZES), limits)).cells[0].pagesize == HUGE


def test_reserved_pages_are_not_assigned():
    where = host(ALL_SIZES, reserved_huge_pages={0: {HUGE: 1}})
    assert isinstance(fit_guest(required(1, 1024, mem_page_size="1GB"), where), Fitted)
    assert isinstance(fit_guest(required(1, 2048, mem_page_size="1GB"), where), Refused)


def test_memory_assigned_without_a_page_size_reduces_the_small_pages():
    where = host(ONE_CELL, usage=NumaUsage(memory_mb={0: 8000}))
    assert isinstance(fit_guest(required(1, 192, mem_page_size="small"), where), Fitted)
    answer = fit_guest(required(1, 193, mem_page_size="small"), where)
    assert reasons_of(answer) == [(ReasonCode.INSUFFICIENT, "4KiB pages", "cell 0")]


def test_memory_in_huge_pages_does_not_reduce_the_small_ones():
    used = NumaUsage(memory_mb={0: 2048}, pages={(0, HUGE): 2})
    where = host(ALL_SIZES, "0-7", usage=used)
    assert isinstance(fit_guest(pinned(1, 5120), where), Fitted)


@pytest.mark.parametrize(
    ("request_", "memory_mb", "code", "resource"),
    [
        ("1GB", 1500, ReasonCode.NOT_A_MULTIPLE, "1GiB pages"),
        ("16MB", 1024, ReasonCode.NOT_OFFERED, "16MiB pages"),
        ("1GB", 3072, ReasonCode.EXCEEDS_CELL, "1GiB pages"),
        ("large", 1026, ReasonCode.EXCEEDS_CELL, "2MiB pages"),
        ("large", 1025, ReasonCode.NOT_A_MULTIPLE, "1GiB pages"),
    ],
)
def test_refusal_names_the_page_size_that_fits_best(request_, memory_mb, code, resource):
    answer = fit_guest(required(1, memory_mb, mem_page_size=request_), host(ALL_SIZES))
    assert reasons_of(answer) == [(code, resource, "cell 0")]


def test_memory_is_counted_in_mb_on_a_host_that_reports_no_pages():
    without_pages = topology(Cell(id=0, cpus=frozenset(range(8)), memory_mb=1024))
    where = host(without_pages, "0-7", usage=NumaUsage(memory_mb={0: 1000}))
    assert isinstance(fit_guest(pinned(1, 24), where), Fitted)
    assert isinstance(fit_guest(pinned(1, 25), where), Refused)
