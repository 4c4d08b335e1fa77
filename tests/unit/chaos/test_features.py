"""Features of worlds: a seed draws them, and every combination occurs."""

from __future__ import annotations

from tests.chaos.world.features import KEYS, QEMU, TLS, features, has_qemu

SEEDS = range(100)


def test_every_combination_occurs():
    drawn = {features(seed, hosts=3) for seed in SEEDS}
    assert len(drawn) == (8 if has_qemu() else 4)
    assert {KEYS, TLS} <= frozenset.union(*drawn)


def test_a_seed_draws_the_same_again():
    for seed in SEEDS:
        assert features(seed, hosts=3) == features(seed, hosts=3)


def test_few_hosts_are_all_simulated():
    assert not any(QEMU in features(seed, hosts=2) for seed in SEEDS)
