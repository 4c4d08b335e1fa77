"""Pauses of a back-off, which are shortened at random."""

from __future__ import annotations

from collections.abc import Sequence


def assert_pauses(pauses: Sequence[float], *longest: float) -> None:
    """Check that each pause is between the half and the whole of its longest length."""
    assert len(pauses) == len(longest)
    for pause, most in zip(pauses, longest, strict=True):
        assert most / 2 <= pause <= most
