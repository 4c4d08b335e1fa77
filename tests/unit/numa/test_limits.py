"""Ratios of one cell."""

from decimal import Decimal

from rtagent.model.policy import Policy
from rtagent.model.request import NumaLimits
from rtagent.numa.limits import CellLimits, cell_limits

HOST = Policy(cpu_allocation_ratio=Decimal("4.0"), ram_allocation_ratio=Decimal("1.5"))


def test_what_the_host_advertises_unless_the_request_says_otherwise():
    ours = CellLimits(cpu_allocation_ratio=Decimal(4), ram_allocation_ratio=Decimal("1.5"))
    assert cell_limits(None, HOST) == ours
    assert cell_limits(NumaLimits(), HOST) == ours


def test_ratios_are_what_was_written():
    asked = cell_limits(NumaLimits(cpu_allocation_ratio=1.1, ram_allocation_ratio=0.9), HOST)
    assert asked.cpu_allocation_ratio == Decimal("1.1")
    assert asked.ram_allocation_ratio == Decimal("0.9")
