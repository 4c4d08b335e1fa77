"""Every order of the steps of one audit and two life cycles with pinned CPUs."""

from functools import partial

import pytest

from tests.interleavings.life_cycles import CYCLES, PAIRS, run_all, run_order, splits
from tests.support.hosts import PINNED


@pytest.mark.parametrize("names", [p for p in PAIRS if "foreign" not in p][1::6], ids=" and ".join)
def test_two_life_cycles_with_pinned_cpus_around_an_audit(names, long):
    cycles = [CYCLES[name] for name in names]
    pinned = partial(run_order, cycles=cycles, extra_specs=PINNED)
    assert run_all(splits(cycles, long=long), pinned) > (1000 if long else 62)
