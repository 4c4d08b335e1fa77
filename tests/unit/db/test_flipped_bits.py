"""Flipped bits in the file of the embedded database: nothing is lost or changed unnoticed."""

import random
from collections import Counter
from pathlib import Path

from tests.unit.db.damaged_stores import fill, judge


def test_flipped_bit_is_noticed(tmp_path: Path, fast: bool, long: bool):
    path = tmp_path / "db.sqlite"
    before = fill(path)
    content = path.read_bytes()
    choose = random.Random(13)
    outcomes = Counter[str]()
    for number in range(1500 if long else 50 if fast else 150):
        at, bit = choose.randrange(len(content)), choose.randrange(8)
        copy = tmp_path / f"{number}-{at}-{bit}.sqlite"
        copy.write_bytes(content[:at] + bytes([content[at] ^ 1 << bit]) + content[at + 1 :])
        outcomes[judge(before, copy)] += 1
        copy.unlink()
    # Most of the file is free space.
    assert outcomes.keys() >= {"identical", "refused"}
