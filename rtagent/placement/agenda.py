"""When the mirror has something to do. Pure."""

from __future__ import annotations

import math

from msgspec.structs import replace

from rtagent.model.base import Value

#: Seconds in which changes gather before the mirror looks at the state.
GATHER = 0.5
#: Seconds before the first repeat of what failed; doubled each time.
FIRST_RETRY = 1.0
#: The longest pause between two repeats, seconds.
LAST_RETRY = 60.0


class Agenda(Value, frozen=True, kw_only=True):
    """Times are of one monotonic clock, in seconds; a transition returns the agenda after it.

    :ivar behind_since: the oldest change that is not mirrored, or None.
    :ivar again_since: the oldest that came while a round runs.
    :ivar urgent: somebody waits for the next round.
    :ivar failures: in a row. :ivar not_before: nothing is tried before, unless it is urgent.
    :ivar unread: the next round has to read everything. :ivar reading: the running one does.
    :ivar read_at: when everything was last read from Placement.
    """

    behind_since: float | None = None
    again_since: float | None = None
    urgent: bool = False
    failures: int = 0
    not_before: float = -math.inf
    unread: bool = True
    running: bool = False
    reading: bool = False
    read_at: float = -math.inf

    def woken(self, now: float) -> Agenda:
        """The state may have changed."""
        if self.running:
            return replace(self, again_since=_first(self.again_since, now))
        return replace(self, behind_since=_first(self.behind_since, now))

    def urged(self, now: float) -> Agenda:
        """The same, and without delay."""
        return replace(self.woken(now), urgent=True)

    def forgotten(self, now: float) -> Agenda:
        """Everything is to be read anew."""
        return replace(self.woken(now), unread=True)

    def begun(self, now: float, refresh: float) -> Agenda:
        """A round starts: it serves all that came before it. :param refresh: as in `due`."""
        return replace(
            self,
            behind_since=_first(self.behind_since, now),
            urgent=False,
            unread=False,
            running=True,
            reading=self.unread or (refresh > 0 and now >= self.read_at + refresh),
        )

    def done(self, now: float) -> Agenda:
        """The round did all that there was to do."""
        return replace(
            self._ended(now), behind_since=self.again_since, failures=0, not_before=-math.inf
        )

    def failed(self, now: float, jitter: float) -> Agenda:
        """The round has to be repeated. :param jitter: 0 to 1: the pause is half to all of it."""
        # The exponent is bounded: 2.0 ** 1100 overflows.
        pause = min(LAST_RETRY, FIRST_RETRY * 2.0 ** min(self.failures, 30))
        return replace(
            self._ended(now),
            failures=self.failures + 1,
            not_before=now + pause * (1 + jitter) / 2,
        )

    def _ended(self, now: float) -> Agenda:
        # What a round forgot and could not read is read by the next, which finds it unknown.
        return replace(
            self, running=False, again_since=None, read_at=now if self.reading else self.read_at
        )

    def due(self, refresh: float) -> float:
        """When the next round is due; infinity: only after a change.

        :param refresh: seconds after which everything is read again; 0: never.
        """
        if self.urgent:
            return -math.inf
        times = []
        if self.behind_since is not None:
            times.append(self.behind_since + GATHER)
        if refresh > 0 and not self.unread:
            times.append(self.read_at + refresh)
        return max(min(times, default=math.inf), self.not_before)


def _first(known: float | None, now: float) -> float:
    return now if known is None else known
