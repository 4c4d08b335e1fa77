"""Cells, as a person reads them and as a program does."""

import pytest

from rtagent.cmd.columns import Lines, Nothing, Pairs, Yes, when
from rtagent.cmd.node import Amounts

AMOUNTS = {
    "unit": "MB",
    "allocation_ratio": 1.5,
    "total": 2047,
    "reserved": 1,
    "claimable": 3069,
    "used": 1025,
    "free": -1,
}


@pytest.mark.parametrize(
    ("cell", "human", "machine"),
    [
        (Yes(True), "yes", True),
        (Yes("why"), "yes", "why"),
        (Yes(None), "", None),
        (Nothing(None), "", None),
        (Nothing(0), "0", 0),
        (Pairs({"a": 1, "b": None, "c": {}, "d": 0}), "a=1\nd=0",
         {"a": 1, "b": None, "c": {}, "d": 0}),
        (Lines(["a", 1]), "a\n1", ["a", 1]),
        (when("2030-01-02T03:04:05.999999Z"), "2030-01-02T03:04:05Z", "2030-01-02T03:04:05Z"),
        (when("2030-01-02T03:04:05+00:00"), "2030-01-02T03:04:05Z", "2030-01-02T03:04:05Z"),
        (when(None), "", None),
    ],
)  # fmt: skip
def test_a_cell_reads_both_ways(cell, human, machine):
    assert (cell.human_readable(), cell.machine_readable()) == (human, machine)


def test_disk_is_shown_in_gb_so_that_it_never_looks_like_more_than_there_is():
    shown = Amounts({"DISK_GB": AMOUNTS}).human_readable().splitlines()
    assert shown[1].split() == ["DISK_GB", "1.5", "1", "1", "2", "2", "-1"]


def test_other_resources_are_shown_as_they_are():
    shown = Amounts({"MEMORY_MB": AMOUNTS}).human_readable().splitlines()
    assert shown[1].split() == ["MEMORY_MB", "1.5", "2047", "1", "3069", "1025", "-1"]
    assert len({len(line) for line in shown}) == 1
