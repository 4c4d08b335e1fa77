"""When the parts of Placement have their next turns: rounds of the mirror, writes of allocations,
and audits. Pure. Times are seconds of one monotonic clock.

The pause after a failure is not a retry of a call, and so not ``retrying``'s: the next turn does
not repeat the requests that failed but starts from the state of that moment, changes arrive during
the pause, and a request of a caller may end it at once. Such a pause has to be a point in time that
a waiting thread can compare with others, not a sleep in a loop.

PartHealth: the health of a part that writes to Placement.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

from msgspec.structs import replace

from rtagent.errors import PlacementError
from rtagent.model.base import Value
from rtagent.model.consumers import OutboxRow
from rtagent.model.health import Status
from rtagent.ports import Reporter

#: Seconds for which changes are gathered before the mirror looks at the state.
GATHER = 0.5
#: Seconds before the first turn after a failure; doubled for each further failure.
FIRST_RETRY = 1.0
#: The longest pause after a failure, in seconds.
LAST_RETRY = 60.0


def shortened(seconds: float, jitter: float) -> float:
    """Return a pause of between half and all of its length, so that agents that have started
    together do not send their requests together for ever.

    :param jitter: 0 to 1; 1: all of it.
    """
    return seconds * (1 + jitter) / 2


def pause_after(failures: int, longest: float, jitter: float) -> float:
    """Return the pause after a failure, which is between half and all of its full length.

    :param failures: in succession, before this one.
    """
    # The exponent is bounded: 2.0 ** 1100 overflows.
    return shortened(min(longest, FIRST_RETRY * 2.0 ** min(failures, 30)), jitter)


class Schedule(Value, frozen=True, kw_only=True):
    """The rounds of the mirror. Each transition returns the schedule after it.

    :ivar behind_since: the time of the oldest change before the running round that Placement does
        not have, or None. A failed round counts as a change from its start: what it did not read
        may have changed.
    :ivar started_at: when the last round started.
    :ivar changed_since: the time of the oldest change during the running round, or None.
    :ivar urgent: the next round was requested and is due at once.
    :ivar failures: the number of failed rounds in succession.
    :ivar not_before: no round starts before this time, unless it is urgent.
    :ivar outdated: the next round has to read everything from Placement.
    :ivar running: a round is running. :ivar reading: it looks for what other writers changed.
    :ivar anew: it reads everything, also what Placement shows to be unchanged.
    :ivar read_at: when a round that was reading last ended.
    :ivar refresh_jitter: 0 to 1, see `shortened`: of the time until the next refresh.
    """

    behind_since: float | None = None
    started_at: float = -math.inf
    changed_since: float | None = None
    urgent: bool = False
    failures: int = 0
    not_before: float = -math.inf
    outdated: bool = True
    running: bool = False
    reading: bool = False
    anew: bool = False
    read_at: float = -math.inf
    refresh_jitter: float = 1.0

    @property
    def lacking_since(self) -> float | None:
        """The time of the oldest change that Placement does not have, or None. It may have come
        during the running round.
        """
        return self.changed_since if self.behind_since is None else self.behind_since

    def wake(self, now: float) -> Schedule:
        """Note that the state may have changed."""
        if self.running:
            return replace(self, changed_since=_oldest(self.changed_since, now))
        return replace(self, behind_since=_oldest(self.behind_since, now))

    def request(self, now: float) -> Schedule:
        """Request a round at once."""
        return replace(self.wake(now), urgent=True)

    def forget(self, now: float) -> Schedule:
        """Have the next round read everything."""
        return replace(self.wake(now), outdated=True)

    def start(self, now: float, refresh: float) -> Schedule:
        """Start a round, which covers all changes before it. :param refresh: as in `due`."""
        return replace(
            self,
            started_at=now,
            urgent=False,
            outdated=False,
            running=True,
            reading=self.outdated or (refresh > 0 and now >= self._refresh_at(refresh)),
            anew=self.outdated,
        )

    def succeed(self, now: float, jitter: float) -> Schedule:
        """End a round that did everything. :param jitter: as in `fail`, for the refresh."""
        return replace(
            self._end(now, jitter),
            behind_since=self.changed_since,
            failures=0,
            not_before=-math.inf,
        )

    def fail(self, now: float, jitter: float) -> Schedule:
        """End a round that has to be repeated.

        :param jitter: 0 to 1; the pause is between half and all of its full length, and so is the
            time until the next refresh if the round has read everything.
        """
        return replace(
            self._end(now, jitter),
            behind_since=_oldest(self.behind_since, self.started_at),
            failures=self.failures + 1,
            not_before=now + pause_after(self.failures, LAST_RETRY, jitter),
        )

    def due(self, refresh: float) -> float:
        """Return when the next round is due; infinity: only after a change.

        :param refresh: the most seconds until the next refresh; 0: there is none.
        """
        if self.urgent:
            return -math.inf
        times = []
        if self.behind_since is not None:
            times.append(self.behind_since + GATHER)
        if refresh > 0 and not self.outdated:
            times.append(self._refresh_at(refresh))
        return max(min(times, default=math.inf), self.not_before)

    def _refresh_at(self, refresh: float) -> float:
        return self.read_at + shortened(refresh, self.refresh_jitter)

    def _end(self, now: float, jitter: float) -> Schedule:
        ended = replace(self, running=False, changed_since=None)
        # A provider that the round could not read is unknown to the next one, which reads it.
        return replace(ended, read_at=now, refresh_jitter=jitter) if self.reading else ended


def _oldest(known: float | None, now: float) -> float:
    return now if known is None else known


class _Refusal(Value, frozen=True, kw_only=True):
    revision: int
    failures: int
    not_before: float
    error: PlacementError


class Pauses:
    """When allocations are tried again after a failure. For one thread at a time.

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
            failures = known.failures if known and known.revision == row.revision else 0
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
        return pause_after(failures, self._longest(), self._jitter())


class AuditPlan(Value, frozen=True, kw_only=True):
    """When allocations are compared with the claims.

    :ivar audited_at: when the last regular audit began; None: there was none yet.
    :ivar recheck_at: when the findings of that audit count, and are looked at once more; infinity:
        there is nothing to look at.
    :ivar requested_at: when an audit is due for another reason.
    :ivar jitter: 0 to 1, see `shortened`: of the time until the next regular audit.
    """

    audited_at: float | None = None
    recheck_at: float = math.inf
    requested_at: float = math.inf
    jitter: float = 1.0

    def due(self, interval: float) -> float:
        """Return when the next audit is due; infinity: never.

        :param interval: the most seconds between regular audits; 0: only the first.
        """
        return min(self.recheck_at, self.requested_at, self._regularly(interval))

    def request(self, at: float) -> AuditPlan:
        """Audit at that time, too, because the policy has changed."""
        return replace(self, requested_at=min(self.requested_at, at))

    def after(
        self, began: float, recheck: float | None, interval: float, jitter: float
    ) -> AuditPlan:
        """Return the plan after an audit.

        What a recheck finds is not looked at once more: on a busy host each audit sees allocations
        whose claims are about to be made.

        :param recheck: when what the audit has found will count; None: it has found nothing new.
        :param jitter: 0 to 1, if it was a regular audit: of the time until the next.
        """
        plan = replace(
            self,
            recheck_at=_later(self.recheck_at, began),
            requested_at=_later(self.requested_at, began),
        )
        if began < self._regularly(interval):
            return plan
        recheck_at = math.inf if recheck is None else recheck
        return replace(plan, audited_at=began, recheck_at=recheck_at, jitter=jitter)

    def _regularly(self, interval: float) -> float:
        if self.audited_at is None:
            return -math.inf
        return self.audited_at + shortened(interval or math.inf, self.jitter)


def _later(due: float, began: float) -> float:
    """Return when something is due after an audit: never, if the audit has done it."""
    return math.inf if began >= due else due


class PartHealth:
    """Reports health, and logs a problem once even if each turn meets it."""

    def __init__(self, part: str, reporter: Reporter) -> None:
        self._part, self._reporter = part, reporter
        self._kind: object = None
        self.status = Status.PASS

    def note(self, status: Status, output: str = "", kind: object = None) -> None:
        """:param kind: of the problem. Messages of one kind differ in addresses and times."""
        self._reporter.health(self._part, status, output)
        # The reporter logs a new status itself.
        if status == self.status and kind != self._kind:
            self._reporter.log("warning", f"{self._part}: {output}")
        self.status, self._kind = status, kind
