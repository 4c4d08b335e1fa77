"""The pages of a scheduler: the fleet, one host, explain, decisions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from rtagent.api.page import decisions, explain, fleet, fleet_host, timeline
from rtagent.api.page.fleet_hosts import fleet as fleet_of
from rtagent.api.page.rendering import Content, Later
from rtagent.api.page.routes import Link, Paged, Query
from rtagent.scheduler.explanation import Explanation
from rtagent.scheduler.host_state import HostState

#: Seconds for which a page of many hosts is shown, because reports arrive all the time.
SHOWN = 2


class FleetSources(Protocol):
    """The sources of a view."""

    @property
    def hosts(self) -> Callable[[], Sequence[HostState]]: ...

    @property
    def now(self) -> Callable[[], float]: ...

    @property
    def down_time(self) -> Callable[[], float]: ...

    @property
    def decisions(self) -> Callable[[], Sequence[Any]]: ...

    @property
    def explain(self) -> Callable[[Mapping[str, Any]], Explanation]: ...

    @property
    def time(self) -> Callable[[], datetime]: ...


class FleetView(Paged, Protocol):
    """The data of one request."""

    @property
    def sources(self) -> FleetSources: ...


def _fleet(view: FleetView, query: Query) -> Later:
    sources = view.sources

    def make() -> Content:
        hosts = fleet_of(sources.hosts(), sources.now(), sources.down_time())
        return fleet.fleet_page(hosts, query)

    return Later(version=timeline.version(sources.time(), SHOWN), make=make)


def _host(view: FleetView, name: str, query: Query) -> Later:
    sources, at = view.sources, view.sources.time()

    def make() -> Content:
        return fleet_host.fleet_host_page(
            sources.hosts(), name, sources.now(), sources.down_time(), at
        )

    return Later(version=timeline.version(at, SHOWN), make=make)


def _decisions(view: FleetView, query: Query) -> Later:
    sources, at = view.sources, view.sources.time()
    return Later(
        version=timeline.version(at, SHOWN),
        make=lambda: decisions.decisions_page(sources.decisions(), query, at),
    )


def _explain(view: FleetView, query: Query) -> Content:
    """Return the page, uncached. The script does not poll it, because it may wait for Placement."""
    return explain.explain_page(query, view.sources.explain)


#: By name: ``/page/NAME``, and ``""`` for ``/``.
PAGES: Mapping[str, Callable[[FleetView, Query], Content | Later]] = {
    "": _fleet,
    "explain": _explain,
    "decisions": _decisions,
}
#: By name: ``/page/NAME/ITEM``.
ITEMS: Mapping[str, Callable[[FleetView, str, Query], Content | Later]] = {"hosts": _host}

#: They show more than versioned data.
UNCACHED = frozenset(PAGES) | frozenset(ITEMS)

NAVIGATION = (
    Link(name="", label="Hosts"),
    Link(name="explain", label="Explain"),
    Link(name="decisions", label="Decisions"),
)
