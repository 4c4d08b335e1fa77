"""Every order of the steps of one audit and two life cycles, one of which begins with a domain."""

from functools import partial

import pytest

from tests.interleavings.life_cycles import CYCLES, UNCLAIMED, run_all, run_order, splits


@pytest.mark.parametrize("names", UNCLAIMED, ids=" and ".join)
def test_unclaimed_domain_and_another_life_cycle_around_an_audit(names, long):
    cycles = [CYCLES[name] for name in names]
    orders = splits(cycles, long=long)
    assert run_all(orders, partial(run_order, cycles=cycles)) > (600 if long else 37)
