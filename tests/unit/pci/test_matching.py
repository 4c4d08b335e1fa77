"""Sharing out."""

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
        # who can have another makes way
        ([1, 1], [{"a": 0, "b": 0}, {"a": 0}], [["b"], ["a"]]),
        ([1, 1, 1], [{"a": 0, "b": 0}, {"b": 0, "c": 0}, {"a": 0}], [["b"], ["c"], ["a"]]),
        ([2, 1], [{"a": 0, "b": 0, "c": 0}, {"a": 0, "b": 0}], [["b", "c"], ["a"]]),
        # as many as can be have what suits them
        ([1, 1], [{"a": 0, "b": 0}, {"a": 0, "c": 2}], [["b"], ["a"]]),
        # and nobody goes without because it suits another
        ([1, 1], [{"a": 0, "b": 2}, {"a": 2}], [["b"], ["a"]]),
    ],
)
def test_who_gets_what(needs, eligible, expected):
    assert [sorted(each) for each in match(needs, eligible)] == expected
