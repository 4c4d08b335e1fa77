"""Drain: an operator's wish that a node gets empty."""

from __future__ import annotations

from datetime import datetime

from rtagent.model.base import Value


class Drain(Value, frozen=True, kw_only=True):
    """A node that drains creates no claims; all else goes on.

    :ivar reason: why, or "". :ivar deadline: when the node should be empty, or None.
    :ivar since: when it began. :ivar actor: who began it.
    """

    since: datetime
    reason: str = ""
    deadline: datetime | None = None
    actor: str = ""

    def __str__(self) -> str:
        until = f" (until {self.deadline:%Y-%m-%dT%H:%M:%SZ})" if self.deadline else ""
        return f"the node is being drained{until}{f': {self.reason}' if self.reason else ''}"
