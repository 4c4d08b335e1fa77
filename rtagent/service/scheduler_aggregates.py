"""KeptAggregates: the host aggregates of a scheduler, in its database and in its view."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from rtagent.db.aggregate_rows import AggregateStore
from rtagent.model.aggregate import Aggregate
from rtagent.ports import Clock, Reporter
from rtagent.service.kept_records import KeptRecords

PART = "aggregates"


class View(Protocol):
    """What uses the aggregates, see `HostManager`."""

    def set_aggregates(self, aggregates: Iterable[Aggregate]) -> None:
        """Replace all aggregates."""
        ...


class KeptAggregates:
    """Thread-safe. Every change is in the database first, then in the view.

    :ivar records: reads them, see `KeptRecords`. :ivar known: the aggregates that the view has.
    """

    def __init__(
        self,
        store: AggregateStore,
        view: View,
        changed: Callable[[], None],
        clock: Clock,
        reporter: Reporter,
    ) -> None:
        """Read the aggregates.

        :param changed: is called after every change, so that other schedulers read them again.
        :raises StoreUnavailable:
        """
        self._store, self._view, self._clock = store, view, clock
        self.known: tuple[Aggregate, ...] = ()
        reporter = reporter.named(__name__)
        self.records = KeptRecords(PART, store.list, self._show, changed, reporter)

    def list(self) -> tuple[Aggregate, ...]:
        return self.records.read()

    def create(self, name: str, metadata: Mapping[str, str], uuid: str) -> Aggregate:
        return self._after(self._store.create(name, metadata, uuid))

    def set(
        self, aggregate: str, metadata: Mapping[str, str | None], name: str | None = None
    ) -> Aggregate:
        return self._after(self._store.set(aggregate, metadata, name))

    def add_host(self, aggregate: str, host: str) -> Aggregate:
        return self._after(self._store.add_host(aggregate, host))

    def remove_host(self, aggregate: str, host: str) -> Aggregate:
        return self._after(self._store.remove_host(aggregate, host))

    def delete(self, aggregate: str) -> Aggregate:
        return self._after(self._store.delete(aggregate, self._clock.now()))

    def reread(self) -> None:
        self.records.reread()

    def _after(self, result: Aggregate) -> Aggregate:
        self.records.after_change()
        return result

    def _show(self, found: tuple[Aggregate, ...]) -> None:
        if found != self.known:
            self.known = found
            self._view.set_aggregates(found)
