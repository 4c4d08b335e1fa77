"""Orders in which the steps of a life cycle are mixed, and orders of more audits and instances."""

import itertools
import random
from functools import partial

from tests.interleavings.life_cycles import CYCLES, SHARE, all_orders, run_all, run_order
from tests.support.hosts import PINNED


def test_every_order_of_an_audit_and_two_life_cycles(long):
    """A long run has whole life cycles, a short one some of the orders of their beginnings."""
    pairs = [("plain", "too slow"), ("claimed again", "hard reboot"), ("plain", "slow build")]
    length, step, number = (5, 1, 72072) if long else (4, SHARE, 722)
    for names in pairs if long else pairs[:1]:
        cycles = [CYCLES[name][:length] for name in names]
        orders = itertools.islice(all_orders([length, length, 3]), 0, None, step)
        assert run_all(orders, partial(run_order, cycles=cycles)) == number


def test_random_orders_of_two_audits_and_three_life_cycles(long):
    rng = random.Random(20260102)
    for _ in range(20_000 if long else 500):
        cycles = [CYCLES[rng.choice(list(CYCLES))] for _ in range(3)]
        order = [n for n, steps in enumerate(cycles) for _ in steps] + [3] * 6
        rng.shuffle(order)
        specs = rng.choice([{}, PINNED])
        check = partial(run_order, cycles=cycles, audits=2, extra_specs=specs)
        run_all(iter([tuple(order)]), check)
