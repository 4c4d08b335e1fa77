"""KeptRecords: records of a scheduler's database that its view has, too: aggregates and
services. MirroredAggregates: writes aggregates to Placement.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Concatenate, Generic, ParamSpec, TypeVar

from rtagent.db.aggregate_rows import AggregateTable
from rtagent.db.registry import BINARY
from rtagent.errors import PlacementError, StoreUnavailable
from rtagent.model.node import Aggregate
from rtagent.placement.aggregate_mirror import AggregateMirror
from rtagent.ports import Clock, Reporter, Service, ServiceRegistry
from rtagent.scheduler.errors import HostNotFound
from rtagent.scheduler.host_manager import HostManager
from rtagent.scheduler.host_state import HostState
from rtagent.service.loop import Backoff, Rest, every

#: Seconds between two reads of the database. Others may change it, and their messages may be lost.
INTERVAL = 60.0
#: Seconds until the next attempt after the database did not answer.
RETRY = 5.0

T = TypeVar("T")
P = ParamSpec("P")


class KeptRecords(Generic[T]):
    """Thread-safe. The view gets what was read: by every turn, and after every change."""

    def __init__(
        self,
        part: str,
        read: Callable[[], T],
        show: Callable[[T], None],
        changed: Callable[[], None],
        wake: Callable[[], None],
        reporter: Reporter,
    ) -> None:
        """Read the records.

        :param part: the name of their health check. :param read: reads them in the database.
        :param show: replaces them in the view.
        :param changed: is called after every change, so that other schedulers read them again.
        :param wake: runs the next turn soon.
        :raises StoreUnavailable:
        """
        self._part, self._read, self._show, self._changed = part, read, show, changed
        self._reporter = reporter
        self._lock = threading.Lock()
        self._wake = wake
        self.read()

    def turn(self) -> Rest:
        """Read the records again."""
        try:
            self.read()
        except StoreUnavailable as error:
            self._reporter.health(self._part, "warn", error.message)
            return Rest(at_most=RETRY)
        self._reporter.health(self._part, "pass")
        return Rest(at_most=INTERVAL)

    def read(self) -> T:
        """Read the records now. :raises StoreUnavailable: the view stays as it is."""
        with self._lock:  # so that an older read does not replace a newer one
            records = self._read()
            self._show(records)
        return records

    def after_change(self) -> None:
        """React to a change that is in the database: it is announced, and shown if it can be read.

        A database that does not answer now does not make the change undone, so it is read later.
        """
        self._changed()
        try:
            self.read()
        except StoreUnavailable:
            self._wake()


AGGREGATES = "aggregates"


class KeptAggregates:
    """Thread-safe. Every change is in the database first, then in the view.

    :ivar records: reads them, see `KeptRecords`. :ivar known: the aggregates that the view has.
    """

    def __init__(
        self,
        store: AggregateTable,
        view: HostManager,
        changed: Callable[[], None],
        wake: Callable[[], None],
        clock: Clock,
        reporter: Reporter,
    ) -> None:
        """Read the aggregates.

        :param changed: is called after every change, so that other schedulers read them again.
        :param wake: see `KeptRecords`.
        :raises StoreUnavailable:
        """
        self._store, self._view, self._clock, self._wake = store, view, clock, wake
        self.known: tuple[Aggregate, ...] = ()
        reporter = reporter.named(__name__)
        self.records = KeptRecords(AGGREGATES, store.list, self._show, changed, wake, reporter)

    def list(self) -> tuple[Aggregate, ...]:
        return self.records.read()

    def create(self, name: str, metadata: Mapping[str, str], uuid: str) -> Aggregate:
        return self._after(self._store.create(name, metadata, uuid))

    def change(
        self,
        aggregate: str,
        rule: Callable[Concatenate[Aggregate, P], Aggregate],
        *arguments: P.args,
        **named: P.kwargs,
    ) -> Aggregate:
        return self._after(self._store.change(aggregate, rule, *arguments, **named))

    def delete(self, aggregate: str) -> Aggregate:
        return self._after(self._store.delete(aggregate, self._clock.now()))

    def reread(self) -> None:
        self._wake()

    def _after(self, result: Aggregate) -> Aggregate:
        self.records.after_change()
        return result

    def _show(self, aggregates: tuple[Aggregate, ...]) -> None:
        if aggregates != self.known:
            self.known = aggregates
            self._view.set_aggregates(aggregates)


SERVICES = "services"


class KeptServices:
    """Thread-safe. Every change is in the database first, then in the view.

    :ivar records: reads them, see `KeptRecords`.
    """

    def __init__(
        self,
        registry: ServiceRegistry,
        view: HostManager,
        changed: Callable[[], None],
        wake: Callable[[], None],
        reporter: Reporter,
    ) -> None:
        """Read the records.

        :param changed: is called after every change, so that other schedulers read them again.
        :param wake: see `KeptRecords`.
        :raises StoreUnavailable:
        """
        self._registry, self._view = registry, view
        self._reporter = reporter.named(__name__)
        self.records = KeptRecords(SERVICES, self._read, self._show, changed, wake, self._reporter)

    def get(self, host: str) -> Service:
        """Return the record of a host. :raises HostNotFound: :raises StoreUnavailable:"""
        for service in self.records.read():
            if service.host == host:
                return service
        if not self._view.knows(host):
            raise HostNotFound(host=host)
        return Service(host=host, binary=BINARY)

    def force_down(self, host: str, forced_down: bool) -> Service:
        """Change the record of a host. :raises HostNotFound: :raises StoreUnavailable:"""
        self.get(host)
        service = self._registry.set_forced_down(host, forced_down)
        state = "forced down" if forced_down else "no longer forced down"
        self._reporter.log("info", f"an operator changed the service of {host}: it is {state}")
        self.records.after_change()
        return service

    def _read(self) -> list[Service]:
        return [service for service in self._registry.services() if service.binary == BINARY]

    def _show(self, services: list[Service]) -> None:
        forced = {service.host for service in services if service.forced_down}
        self._view.set_forced_down(forced, {service.host for service in services} - forced)


PART = "aggregates-in-placement"
#: Seconds between two comparisons with the hosts and the aggregates that are known here.
COMPARED_EVERY = 5.0
#: Seconds after which every provider is read again.
VERIFIED_EVERY = 3600.0
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
        self._backoff = Backoff(first=COMPARED_EVERY, last=60.0)
        self._verified = clock.monotonic()

    def turn(self) -> Rest:
        """Write what differs."""
        if self._clock.monotonic() >= self._verified + VERIFIED_EVERY:
            self._verified = self._clock.monotonic()
            self._mirror.verify()
        try:
            failed = self._sync()
        except (PlacementError, StoreUnavailable) as error:
            self._reporter.health(PART, "warn", error.message)
            return every(self._backoff.pause())
        self._backoff.reset()
        first = "; ".join(list(failed.values())[:NAMED])
        why = f"{len(failed)} providers are not written: {first}" if failed else ""
        self._reporter.health(PART, "warn" if failed else "pass", why)
        return every(COMPARED_EVERY)

    def _sync(self) -> dict[str, str]:
        aggregates = self._known()
        ours = {aggregate.uuid for aggregate in aggregates} | self._deleted()
        by_host = dict[str, set[str]]()
        for aggregate in aggregates:
            for host in aggregate.hosts:
                by_host.setdefault(host, set()).add(aggregate.uuid)
        members = {host.uuid: frozenset(by_host.get(host.host, ())) for host in self._hosts()}
        return dict(self._mirror.sync(members, ours))
