"""Random orders of moves on three hosts.

After each step the usage, devices and pins of every host follow from the answers, and each running
guest has its claim.
"""

import random

import pytest

from tests.property.conductor import Conductor

STEPS = 30


def run(seed: int, *, shared: bool, reuse: bool) -> int:
    conductor = Conductor(random.Random(seed), shared=shared, reuse=reuse)
    try:
        for _ in range(STEPS):
            conductor.step()
    except Exception as error:
        trace = "\n".join(conductor.trace)
        raise AssertionError(f"seed {seed}: {error!r} after\n{trace}") from error
    return conductor.done


@pytest.mark.parametrize("shared", [True, False], ids=["one database", "one each"])
@pytest.mark.parametrize("reuse", [False, True], ids=["the sum", "the larger"])
def test_hosts_agree_with_the_answers_in_any_order_of_moves(shared: bool, reuse: bool, long: bool):
    seeds = range(2500 if long else 75)
    assert sum(run(seed, shared=shared, reuse=reuse) for seed in seeds) > len(seeds) / 4
