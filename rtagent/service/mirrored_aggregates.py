"""MirroredAggregates: the thread that mirrors host aggregates in Placement."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rtagent.errors import PlacementError, StoreUnavailable
from rtagent.model.node import Aggregate
from rtagent.placement.aggregate_mirror import AggregateMirror
from rtagent.ports import Clock, Reporter
from rtagent.scheduler.host_state import HostState
from rtagent.service.loop import Backoff, Rest, every

PART = "aggregates-in-placement"
#: Seconds between two comparisons with the hosts and the aggregates that are known here.
INTERVAL = 5.0
#: Seconds after which every provider is read again.
VERIFY = 3600.0
#: How many providers a line of health names.
NAMED = 5


class MirroredAggregates:
    """The turns of the thread. All schedulers of a shared database write the same aggregates."""

    def __init__(
        self,
        mirror: AggregateMirror,
        hosts: Callable[[], Sequence[HostState]],
        known: Callable[[], Sequence[Aggregate]],
        deleted: Callable[[], frozenset[str]],
        clock: Clock,
        reporter: Reporter,
    ) -> None:
        """:param known: all aggregates. :param deleted: uuids of those that were deleted; it may
        raise `StoreUnavailable`.
        """
        self._mirror, self._hosts = mirror, hosts
        self._known, self._deleted = known, deleted
        self._clock, self._reporter = clock, reporter.named(__name__)
        self._backoff = Backoff(first=INTERVAL, last=60.0)
        self._verified = clock.monotonic()

    def turn(self) -> Rest:
        """Write what differs."""
        if self._clock.monotonic() >= self._verified + VERIFY:
            self._verified = self._clock.monotonic()
            self._mirror.verify()
        try:
            failed = self._sync()
        except (PlacementError, StoreUnavailable) as error:
            self._reporter.health(PART, "warn", error.message)
            return every(self._backoff.pause())
        self._backoff.reset()
        if failed:
            first = "; ".join(list(failed.values())[:NAMED])
            self._reporter.health(PART, "warn", f"{len(failed)} providers are not written: {first}")
        else:
            self._reporter.health(PART, "pass")
        return every(INTERVAL)

    def _sync(self) -> dict[str, str]:
        known = self._known()
        ours = {each.uuid for each in known} | self._deleted()
        by_host = dict[str, set[str]]()
        for aggregate in known:
            for host in aggregate.hosts:
                by_host.setdefault(host, set()).add(aggregate.uuid)
        wanted = {each.uuid: frozenset(by_host.get(each.host, ())) for each in self._hosts()}
        return dict(self._mirror.sync(wanted, ours))
