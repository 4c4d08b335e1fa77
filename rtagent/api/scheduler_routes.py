"""The paths of a scheduler's read API, and the view that answers each path."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from typing import Any

from msgspec import field
from prometheus_client import CollectorRegistry, generate_latest

from rtagent.api import health, scheduler_capacity, scheduler_decisions, scheduler_hosts
from rtagent.api.metrics import MEDIA_TYPE, HealthCollector
from rtagent.api.page import fleet_pages
from rtagent.api.page.routes import PageCache, PageRoutes
from rtagent.api.reply import JSON, Query, Reply, Routes, document
from rtagent.errors import RtAgentError, Unavailable
from rtagent.model.base import Value
from rtagent.model.health import Check
from rtagent.model.node import Aggregate
from rtagent.scheduler.decision_log import Decision, LoggedDecision
from rtagent.scheduler.explanation import Explanation
from rtagent.scheduler.fleet_counts import FleetCounts
from rtagent.scheduler.host_state import HostState

SERVICE = "rtagent-scheduler"


def _no_explanation(document: Mapping[str, Any]) -> Explanation:
    raise Unavailable("requests cannot be explained here")


class SchedulerSources(Value, frozen=True, kw_only=True):
    """The sources of the views. The callables return at once.

    :ivar hosts: all hosts. :ivar now: the monotonic clock that their ``seen`` is on.
    :ivar down_time: ``service_down_time``. :ivar decisions: the last selections, newest first.
    :ivar decision: finds one, see `DecisionLog`.
    :ivar aggregates: all of them. :ivar complete: whether all hosts are known.
    :ivar checks: the health of the parts. :ivar error: the error that selections get now, or None.
    :ivar counts: the room of the fleet. Its replies wait a moment for the count.
    :ivar registry: the metrics of the process.
    :ivar hung: the vital threads of the process that hang.
    :ivar name: of the scheduler, for people. :ivar time: the time of day.
    :ivar explain: explains the arguments of the RPC method of that name; it may wait for Placement.
    :ivar aside: why messages of service hosts are set aside.
    :ivar pages: the pages for people that were rendered.
    """

    hosts: Callable[[], Sequence[HostState]]
    now: Callable[[], float]
    down_time: Callable[[], float]
    decisions: Callable[[], Sequence[LoggedDecision]]
    decision: Callable[[str], Decision]
    aggregates: Callable[[], Sequence[Aggregate]]
    complete: Callable[[], bool]
    checks: Callable[[], Sequence[Check]]
    error: Callable[[], RtAgentError | None]
    counts: FleetCounts
    registry: CollectorRegistry
    hung: Callable[[], Sequence[str]]
    name: str = SERVICE
    time: Callable[[], datetime] = lambda: datetime.now(UTC)
    explain: Callable[[Mapping[str, Any]], Explanation] = _no_explanation
    aside: Callable[[], Mapping[str, str]] = dict
    pages: PageCache = field(default_factory=PageCache)

    @property
    def without_report(self) -> Mapping[str, str]:
        """Why no report of a host can be used, by host."""
        reporting = {host.host for host in self.hosts()}
        return {host: why for host, why in self.aside().items() if host not in reporting}

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
    shown = scheduler_hosts.hosts(sources.hosts(), sources.now(), sources.down_time())
    return view.reply(shown)


def _host(view: _View, name: str) -> Reply:
    sources = view.sources
    now, down_time = sources.now(), sources.down_time()
    shown = scheduler_hosts.host(sources.hosts(), name, now, down_time, sources.aside())
    return view.reply(shown)


def _capacity(view: _View, query: Query) -> Reply:
    sources = view.sources
    return view.reply(scheduler_capacity.capacity(sources.counts, query, sources.without_report))


def _metrics(view: _View, _: Query) -> Reply:
    own = CollectorRegistry()
    room = partial(scheduler_capacity.metrics, view.sources.counts)
    own.register(HealthCollector(view.sources.checks(), room))
    body = generate_latest(own) + generate_latest(view.sources.registry)
    return Reply(body=body, media_type=MEDIA_TYPE)


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
        "decisions": lambda view, name: view.reply(
            scheduler_decisions.decision(view.sources.decision(name))
        ),
    },
    filters={"capacity": scheduler_capacity.FILTERS},
)

#: The pages for people, see `PageRoutes`.
_PAGES: PageRoutes[_View] = PageRoutes(
    pages=fleet_pages.PAGES,
    items=fleet_pages.ITEMS,
    navigation=fleet_pages.NAVIGATION,
    uncached=fleet_pages.UNCACHED,
)
