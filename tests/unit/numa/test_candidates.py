"""Which host cells a guest cell fits: by its vCPUs, and by its memory and pages."""

from decimal import Decimal

import pytest

from rtagent.model.decision import ReasonCode, Refused
from rtagent.model.topology import Cell
from rtagent.model.usage import NumaUsage
from rtagent.numa.fit import Fitted
from rtagent.numa.host_cells import CellLimits
from tests.support.numa_hosts import (
    ONE_CELL,
    PAGES,
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


def test_memory_of_all_guests_stays_within_the_ratio():
    where = host(ONE_CELL, usage=NumaUsage(memory_mb={0: 8192}))
    assert isinstance(fit_guest(required(1, 4096, numa_nodes="1"), where, LIMITS), Fitted)
    (reason,) = fit_guest(required(1, 4097, numa_nodes="1"), where, LIMITS).reasons
    assert (reason.resource, reason.requested, reason.available) == ("MEMORY_MB", 4097, 4096)


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
