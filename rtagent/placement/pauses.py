"""Pauses: when allocations are tried again after a failure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

from rtagent.errors import PlacementError
from rtagent.model.base import Value
from rtagent.model.outbox import OutboxRow
from rtagent.placement.jitter import shortened
from rtagent.placement.schedule import FIRST_RETRY


class _Refusal(Value, frozen=True, kw_only=True):
    revision: int
    failures: int
    not_before: float
    error: PlacementError


class Pauses:
    """For one thread at a time. Times are seconds of one monotonic clock.

    A failure that meets all consumers alike pauses all writes. A refusal pauses its consumer only,
    until its allocation changes again, so that it does not keep the others waiting.

    :ivar not_before: no request is sent before.
    """

    def __init__(self, jitter: Callable[[], float], longest: Callable[[], float]) -> None:
        """:param longest: returns the longest pause in seconds."""
        self.not_before = -math.inf
        self._jitter, self._longest = jitter, longest
        self._failures = 0
        self._error: PlacementError | None = None
        self._refusals: dict[str, _Refusal] = {}

    @property
    def error(self) -> PlacementError | None:
        """Why something is not written, or None."""
        refused = next((each.error for each in self._refusals.values()), None)
        return self._error or refused

    def due(self, row: OutboxRow) -> float:
        """Return when a row may be written."""
        refusal = self._refusals.get(row.consumer_uuid)
        if refusal is None or refusal.revision != row.revision:
            return self.not_before
        return max(self.not_before, refusal.not_before)

    def fail(self, error: PlacementError, now: float) -> None:
        """Note a failure that meets all consumers alike."""
        self.not_before = now + self._pause(self._failures)
        self._failures, self._error = self._failures + 1, error

    def refuse(
        self, rows: Iterable[OutboxRow], errors: Mapping[str, PlacementError], now: float
    ) -> None:
        """Note that Placement refuses these consumers."""
        for row in rows:
            known = self._refusals.get(row.consumer_uuid)
            same = known is not None and known.revision == row.revision
            failures = known.failures if known is not None and same else 0
            self._refusals[row.consumer_uuid] = _Refusal(
                revision=row.revision,
                failures=failures + 1,
                not_before=now + self._pause(failures),
                error=errors[row.consumer_uuid],
            )

    def keep(self, rows: Iterable[OutboxRow]) -> None:
        """Forget the refusals of all but these rows."""
        known = {row.consumer_uuid for row in rows}
        self._refusals = {uuid: each for uuid, each in self._refusals.items() if uuid in known}

    def succeed(self, rows: Iterable[OutboxRow]) -> None:
        """Note that Placement answers, and has what these rows are about."""
        self.not_before, self._failures, self._error = -math.inf, 0, None
        for row in rows:
            self._refusals.pop(row.consumer_uuid, None)

    def _pause(self, failures: int) -> float:
        # The exponent is bounded: 2.0 ** 1100 overflows.
        pause = min(self._longest(), FIRST_RETRY * 2.0 ** min(failures, 30))
        return shortened(pause, self._jitter())
