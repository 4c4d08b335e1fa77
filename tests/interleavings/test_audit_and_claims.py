"""Every order of the steps of one audit and two life cycles that begin with a claim."""

from functools import partial

import pytest

from tests.interleavings.life_cycles import CLAIMED, CYCLES, run_all, run_order, splits


@pytest.mark.parametrize("names", CLAIMED, ids=" and ".join)
def test_two_life_cycles_around_an_audit(names, long):
    cycles = [CYCLES[name] for name in names]
    orders = splits(cycles, long=long)
    assert run_all(orders, partial(run_order, cycles=cycles)) > (600 if long else 37)
