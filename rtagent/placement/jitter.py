"""Jitter: agents that have started together do not send their requests together for ever. Pure."""

from __future__ import annotations


def shortened(seconds: float, jitter: float) -> float:
    """Return a pause of between half and all of its length. :param jitter: 0 to 1; 1: all of it."""
    return seconds * (1 + jitter) / 2
