"""When a fleet has settled."""

from __future__ import annotations

from benchmarks.fleet.agent import PLACEMENT_LAG
from benchmarks.fleet.boot import without_refreshes

LAG, OTHER_LAG = (PLACEMENT_LAG, "host-1"), (PLACEMENT_LAG, "host-2")
AUDIT, OTHER_AUDIT = ("audit", "host-1"), ("audit", "host-2")


def test_a_lag_of_placement_that_lasts_counts():
    assert without_refreshes({LAG, OTHER_LAG}, {LAG}) == {LAG}


def test_a_lag_of_placement_that_has_just_begun_does_not_count():
    assert without_refreshes({OTHER_LAG}, {LAG}) == set()


def test_every_other_part_counts_at_once():
    assert without_refreshes({AUDIT}, {OTHER_AUDIT}) == {OTHER_AUDIT}
