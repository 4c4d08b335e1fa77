"""How the agent's parts are doing."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from datetime import datetime

from rtagent.model.base import Value


class Status(enum.StrEnum):
    """The words of application/health+json, from best to worst."""

    PASS = "pass"
    WARN = "warn"
    FAIL = "fail"


class Check(Value, frozen=True, kw_only=True):
    """One part's state.

    :ivar part: ``store``, ``hypervisor``, ``placement`` and the like.
    :ivar time: since when it is so. :ivar output: why, in a sentence; "" when all is well.
    """

    part: str
    status: Status
    time: datetime
    output: str = ""


def worst(checks: Iterable[Check]) -> Status:
    """The state of the whole: that of its worst part."""
    order = list(Status)
    return max((check.status for check in checks), key=order.index, default=Status.PASS)
