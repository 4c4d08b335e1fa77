"""Random orders of moves on three hosts.

After each step the usage, devices and pins of every host follow from the answers, and each running
guest has its claim.
"""

import random

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


def test_hosts_agree_with_the_answers_in_any_order_of_moves(fast: bool, long: bool):
    """With one database or one each; a resize needs the sum or the larger of two sizes."""
    seeds = range(10_000 if long else 40 if fast else 120)
    done = sum(run(seed, shared=seed % 2 == 0, reuse=seed % 4 < 2) for seed in seeds)
    assert done > len(seeds) / 4
