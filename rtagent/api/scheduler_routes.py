"""The paths of a scheduler's read API, and the view that answers each path."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from http import HTTPStatus
from typing import Any

from msgspec import field
from prometheus_client import CollectorRegistry

from rtagent.api import health, metrics
from rtagent.api import scheduler_documents as documents
from rtagent.api.page import fleet_pages
from rtagent.api.page.fleet_pages import FleetSources
from rtagent.api.page.routes import PageCache, PageRoutes
from rtagent.api.reply import JSON, Query, Reply, Routes, document
from rtagent.errors import RtAgentError
from rtagent.model.base import Value
from rtagent.model.health import Check
from rtagent.model.node import Aggregate

SERVICE = "rtagent-scheduler"


class SchedulerSources(FleetSources, frozen=True, kw_only=True):
    """The sources of the views.

    :ivar aggregates: all of them. :ivar complete: whether all hosts are known.
    :ivar checks: the health of the parts. :ivar error: the error that selections get now, or None.
    :ivar registry: the metrics of the process.
    :ivar hung: the vital threads of the process that hang.
    :ivar name: of the scheduler, for people.
    :ivar pages: the pages for people that were rendered.
    """

    aggregates: Callable[[], Sequence[Aggregate]]
    complete: Callable[[], bool]
    checks: Callable[[], Sequence[Check]]
    error: Callable[[], RtAgentError | None]
    registry: CollectorRegistry
    hung: Callable[[], Sequence[str]]
    name: str
    pages: PageCache = field(default_factory=PageCache)

    def answer(self, target: str) -> Reply:
        """Return the reply to a GET of this path and query."""
        view = _View(sources=self, complete=self.complete())
        return _PAGES.answer(view, target) or _ROUTES.answer(view, target)


class _View(Value, frozen=True, kw_only=True):
    """The data of one request."""

    sources: SchedulerSources
    complete: bool

    def reply(
        self, content: Mapping[str, Any], status: HTTPStatus = HTTPStatus.OK, media_type: str = JSON
    ) -> Reply:
        """The content, and whether the scheduler knows all hosts."""
        return document({**content, "complete": self.complete}, status, media_type)

    @property
    def cache(self) -> PageCache:
        """The pages that were rendered before."""
        return self.sources.pages

    @property
    def version(self) -> Hashable:
        """The version of the data of all pages."""
        return self.complete

    def frame(self) -> Mapping[str, Any]:
        """What the frame of every page shows."""
        notices = [] if self.complete else ["Not all hosts are known yet."]
        error = self.sources.error()
        if error is not None:
            notices.append(f"Requests are refused now: {error.message}")
        number = len(self.sources.hosts())
        return {"place": self.sources.name, "stamp": f"{number} hosts", "notices": notices}


def _hosts(view: _View, _: Query) -> Reply:
    sources = view.sources
    shown = documents.hosts(sources.hosts(), sources.now(), sources.down_time())
    return view.reply(shown)


def _host(view: _View, name: str) -> Reply:
    sources = view.sources
    now, down_time = sources.now(), sources.down_time()
    shown = documents.host(sources.hosts(), name, now, down_time, sources.aside())
    return view.reply(shown)


def _capacity(view: _View, query: Query) -> Reply:
    sources = view.sources
    return view.reply(documents.capacity(sources.counts, query, sources.without_report))


def _metrics(view: _View, _: Query) -> Reply:
    room = partial(documents.room_metrics, view.sources.counts)
    collector = metrics.HealthCollector(view.sources.checks(), room)
    return metrics.reply(collector, view.sources.registry)


_ROUTES: Routes[_View] = Routes(
    collections={
        "hosts": _hosts,
        "capacity": _capacity,
        "decisions": lambda view, _: view.reply({"decisions": view.sources.decisions()}),
        "aggregates": lambda view, _: view.reply({"aggregates": view.sources.aggregates()}),
        "health": lambda view, _: health.health(view, view.sources.checks(), SERVICE),
        "ready": lambda view, _: health.ready(view, view.sources.error()),
        "live": lambda view, _: health.live(view, view.sources.hung()),
        "metrics": _metrics,
    },
    items={
        "hosts": _host,
        "decisions": lambda view, name: view.reply(documents.decision(view.sources.decision(name))),
    },
    filters={"capacity": documents.CAPACITY_FILTERS},
)

#: The pages for people, see `PageRoutes`.
_PAGES: PageRoutes[_View] = PageRoutes(
    pages=fleet_pages.PAGES,
    items=fleet_pages.ITEMS,
    navigation=fleet_pages.NAVIGATION,
    uncached=fleet_pages.UNCACHED,
)
