"""DecisionLog: the last decisions of the scheduler, and why they were made."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping, Sequence
from datetime import datetime

from rtagent.model.base import Value

#: How many decisions are kept.
KEPT = 1000
#: How many choices they have together. One request selects for at most 1,000 instances.
MAX_CHOICES = 4000


class Choice(Value, frozen=True, kw_only=True):
    """The hosts of one instance. :ivar alternates: names of their hosts."""

    instance_uuid: str
    host: str
    nodename: str
    operation_id: str
    weight: float
    alternates: tuple[str, ...] = ()


class LoggedDecision(Value, frozen=True, kw_only=True):
    """One request, and its outcome.

    :ivar flavor: its name or id. :ivar seconds: how long it took.
    :ivar hosts: how many were searched. :ivar refused: how many each filter refused.
    :ivar choices: of each instance; empty: none was made, because of the `error`.
    """

    at: datetime
    purpose: str
    flavor: str
    instances: int
    seconds: float
    hosts: int
    refused: Mapping[str, int]
    choices: tuple[Choice, ...] = ()
    error: str | None = None


class DecisionLog:
    """The last `KEPT` decisions, or fewer: with at most `MAX_CHOICES` choices together, but always
    the last one. Thread-safe.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: deque[LoggedDecision] = deque()
        self._choices = 0

    def add(self, decision: LoggedDecision) -> None:
        """Add the newest decision, and remove the oldest ones that are too many."""
        with self._lock:
            self._kept.appendleft(decision)
            self._choices += len(decision.choices)
            while len(self._kept) > 1 and (len(self._kept) > KEPT or self._choices > MAX_CHOICES):
                self._choices -= len(self._kept.pop().choices)

    def newest_first(self) -> Sequence[LoggedDecision]:
        """Return the decisions."""
        with self._lock:
            return tuple(self._kept)
