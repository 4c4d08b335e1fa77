"""Any order of moves on three hosts, against a book of the answers: after each step the usage, the
devices and the pins of every host are the book's, and no guest that runs is without its claim."""

import random

import pytest

from tests.property.conductor import Conductor

STEPS = 30


def play(seed: int, *, shared: bool, reuse: bool) -> int:
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
def test_any_order_of_moves(shared: bool, reuse: bool, long: bool):
    seeds = range(2500 if long else 75)
    assert sum(play(seed, shared=shared, reuse=reuse) for seed in seeds) > len(seeds) / 4
