"""Health of the agent's parts."""

import enum
from collections.abc import Iterable
from datetime import datetime

from rtagent.model.base import Value


class Status(enum.StrEnum):
    """The statuses of application/health+json, from best to worst."""

    PASS = "pass"  # noqa: S105  no password
    WARN = "warn"
    FAIL = "fail"


class Check(Value, frozen=True, kw_only=True):
    """The health of one part.

    :ivar part: ``store``, ``hypervisor``, ``placement`` and others.
    :ivar time: when the status last changed.
    :ivar output: the reason, as a sentence; "" when the status is pass.
    """

    part: str
    status: Status
    time: datetime
    output: str = ""


def worst(checks: Iterable[Check]) -> Status:
    """Return the status of the whole, which is that of its worst part."""
    order = list(Status)
    return max((check.status for check in checks), key=order.index, default=Status.PASS)
