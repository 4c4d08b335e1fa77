"""Schedule: when the mirror runs its next round. Pure."""

from __future__ import annotations

import math

from msgspec.structs import replace

from rtagent.model.base import Value
from rtagent.placement.jitter import shortened

#: Seconds for which changes are gathered before the mirror looks at the state.
GATHER = 0.5
#: Seconds before the first round after a failure; doubled for each further failure.
FIRST_RETRY = 1.0
#: The longest pause after a failure, in seconds.
LAST_RETRY = 60.0


class Schedule(Value, frozen=True, kw_only=True):
    """Times are seconds of one monotonic clock. Each transition returns the schedule after it.

    The pause after a failure is not a retry of a call, and so not ``retrying``'s: the next round
    does not repeat the requests that failed but starts from the state of that moment, changes
    arrive during the pause, and `request` ends it at once. Such a pause has to be a point in time
    that a waiting thread can compare with others, not a sleep in a loop.

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
        # The exponent is bounded: 2.0 ** 1100 overflows.
        pause = min(LAST_RETRY, FIRST_RETRY * 2.0 ** min(self.failures, 30))
        return replace(
            self._end(now, jitter),
            behind_since=_oldest(self.behind_since, self.started_at),
            failures=self.failures + 1,
            not_before=now + shortened(pause, jitter),
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
