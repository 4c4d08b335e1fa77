"""Bipartite matching of requests and devices."""

import pytest

from rtagent.pci.matching import match


@pytest.mark.parametrize(
    ("needs", "eligible", "expected"),
    [
        ([1], [{"a": 0, "b": 0}], [["a"]]),
        ([2], [{"a": 0, "b": 0}], [["a", "b"]]),
        ([3], [{"a": 0, "b": 0}], [["a", "b"]]),
        ([0], [{"a": 0}], [[]]),
        ([1], [{"a": 1, "b": 0}], [["b"]]),
        # A request gives up a device if it can take another.
        ([1, 1], [{"a": 0, "b": 0}, {"a": 0}], [["b"], ["a"]]),
        ([1, 1, 1], [{"a": 0, "b": 0}, {"b": 0, "c": 0}, {"a": 0}], [["b"], ["c"], ["a"]]),
        ([2, 1], [{"a": 0, "b": 0, "c": 0}, {"a": 0, "b": 0}], [["b", "c"], ["a"]]),
        # As many requests as possible get devices of their best rank.
        ([1, 1], [{"a": 0, "b": 0}, {"a": 0, "c": 2}], [["b"], ["a"]]),
        # A better rank for one request never leaves another without a device.
        ([1, 1], [{"a": 0, "b": 2}, {"a": 2}], [["b"], ["a"]]),
    ],
)
def test_match_serves_as_many_as_possible_and_the_best_ranks_first(needs, eligible, expected):
    assert [sorted(each) for each in match(needs, eligible)] == expected
