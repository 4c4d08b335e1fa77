"""The paths of the read API, and the view that answers each path."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from http import HTTPStatus
from typing import Any

from msgspec import field
from msgspec.structs import asdict
from prometheus_client import CollectorRegistry

from rtagent.api import capacity, claims, events, health, metrics, nodes, numa, pci
from rtagent.api.capacity import Blocked
from rtagent.api.events import EventTail, tail_of
from rtagent.api.page import host_map, host_pages
from rtagent.api.page.host_map import ShownRoom
from rtagent.api.page.host_pages import PageSources
from rtagent.api.page.routes import Link, PageCache, PageRoutes
from rtagent.api.reply import JSON, Query, Reply, Routes, check, document, one_of
from rtagent.capacity.count import Counts
from rtagent.errors import ClaimNotFound, InvalidRequest, RtAgentError
from rtagent.model.base import Value
from rtagent.model.device import RootPorts
from rtagent.model.health import Check
from rtagent.model.metric import Metric
from rtagent.model.node_state import NodeState
from rtagent.model.observation import FLAG
from rtagent.model.timeline import ENTRY_KIND

TIMELINE_FILTERS = frozenset({"kind"})
HISTORY_FILTERS = frozenset({"before"})


def timeline(sources: PageSources, filters: Mapping[str, str]) -> Mapping[str, Any]:
    """``{"timeline": [TimelineEntry], "since"}``: the last hour, newest first.

    ``since``: the entries are complete from here on.

    :param filters: ``kind``.
    :raises InvalidRequest: there is no such kind.
    """
    check("timeline", filters, {"kind": one_of(ENTRY_KIND)})
    kind = filters.get("kind")
    view = sources.timeline()
    found = [each for each in view.entries if kind in (None, each.kind)]
    return {"timeline": found, "since": view.since}


def history(
    sources: PageSources, state: NodeState, claim_uuid: str | None, filters: Mapping[str, str]
) -> Mapping[str, Any]:
    """``{"history": [ClaimEvent with its number], "older"}``: recorded events, newest first.

    ``older``: the filter ``before`` for the events that follow; null: there are none.

    :param claim_uuid: None: of all claims.
    :param filters: ``before``: only events with a lower number.
    :raises InvalidRequest: that is no number. :raises ClaimNotFound: there is no record of it.
    :raises Unavailable: the database does not answer now.
    """
    before = filters.get("before")
    if before is not None and not (before.isascii() and before.isdecimal() and len(before) < 19):
        raise InvalidRequest.at("GET /history", "before", "not a number")
    page = sources.history(state, claim_uuid, None if before is None else int(before))
    if claim_uuid is not None and not page.events and before is None:
        raise ClaimNotFound(claim_uuid=claim_uuid)
    events = [{"number": each.number, **asdict(each.event)} for each in page.events]
    return {"history": events, "older": page.older}


#: What is at ``/allocations`` before the first audit of the allocations in Placement.
NO_AUDIT: Mapping[str, Any] = {"at": None, "counts": {}, "allocations": (), "problems": ()}

OUTDATED = "The database cannot be reached. This is the last known state; it may be out of date."


class Sources(Value, frozen=True, kw_only=True):
    """The sources of the views. The callables return at once, without a lock or a remote call.

    :ivar snapshot: the published state. :ivar stale: whether the database may be newer.
    :ivar checks: the health of the agent's parts.
    :ivar creation_error: the error that calls that create claims get now, or None.
    :ivar registry: the metrics of the process.
    :ivar allocations: the last audit of the allocations in Placement.
    :ivar events: the recorded events.
    :ivar pages: the pages for people that were rendered of that state.
    :ivar measured: what the compute monitors have measured.
    :ivar awaited: claims whose guests are not back after a reboot of the host.
    :ivar hung: the vital threads of the process that hang.
    :ivar devices_error: the error that these calls get if the claim has devices, or None.
    :ivar counts: how many more guests fit.
    :ivar more: what pages and histories show in addition to the state.
    """

    snapshot: Callable[[], NodeState]
    stale: Callable[[], bool]
    checks: Callable[[], Sequence[Check]]
    creation_error: Callable[[], RtAgentError | None]
    registry: CollectorRegistry
    allocations: Callable[[], Mapping[str, Any]]
    events: EventTail = field(default_factory=lambda: tail_of(()))
    pages: PageCache = field(default_factory=PageCache)
    measured: Callable[[], Sequence[Metric]] = tuple
    hung: Callable[[], Sequence[str]] = tuple
    awaited: Callable[[], frozenset[str]] = frozenset
    devices_error: Callable[[], RtAgentError | None] = lambda: None
    counts: Counts = field(default_factory=Counts)
    more: PageSources = PageSources()

    def answer(self, target: str) -> Reply:
        """Return the reply to a GET of this path and query."""
        return answer(self, target)


class View(Value, frozen=True, kw_only=True):
    """The agent's data for one request, so that the whole reply shows the same state."""

    sources: Sources
    state: NodeState
    stale: bool

    def reply(
        self, content: Mapping[str, Any], status: HTTPStatus = HTTPStatus.OK, media_type: str = JSON
    ) -> Reply:
        """The content with ``revision`` and ``stale`` of the state that it was made from."""
        whole = {**content, "revision": self.state.revision, "stale": self.stale}
        return document(whole, status, media_type)

    @property
    def cache(self) -> PageCache:
        """The pages that were rendered before."""
        return self.sources.pages

    @property
    def ports(self) -> RootPorts:
        """The root ports of the host's devices."""
        return self.sources.more.root_ports()

    @property
    def version(self) -> Hashable:
        """The version of the data of all pages."""
        room = self.cache.room.version(self.state.position, self.room_rest)
        return self.state.position, self.stale, self.ports, room

    @property
    def blocked(self) -> Blocked:
        """What keeps claims from being granted at present."""
        sources = self.sources
        return capacity.blocked(self.state, sources.creation_error(), sources.devices_error())

    @property
    def room_rest(self) -> Hashable:
        """What the room of flavors depends on, besides the state."""
        return self.blocked, self.sources.counts.version

    def room(self) -> ShownRoom:
        """What the host's page shows of its capacity."""
        return self.cache.room.of(self.state.position, self.room_rest, self.capacity)

    def flags(self) -> Mapping[str, str]:
        """The flags of claims, by uuid: ``reboot``, while its guest is awaited."""
        return dict.fromkeys(sorted(self.sources.awaited()), FLAG)

    def capacity(self, only: str | None = None) -> Mapping[str, Any]:
        """The capacity of the host. :param only: the name of a flavor: that alone."""
        return capacity.document(self.state, self.sources.counts, self.blocked, only)

    def frame(self) -> Mapping[str, Any]:
        """What the frame of every page shows."""
        return {
            "place": self.state.node.hypervisor_hostname,
            "stamp": f"revision {self.state.revision}",
            "notices": (OUTDATED,) if self.stale else (),
        }


def _metrics(view: View) -> Reply:
    checks, room = view.sources.checks(), partial(capacity.metrics, view.capacity)
    collector = metrics.StateCollector(view.state, view.stale, checks, room)
    return metrics.reply(collector, view.sources.registry)


#: ``/NAME``
COLLECTIONS: Mapping[str, Callable[[View, Query], Reply]] = {
    "nodes": lambda view, _: view.reply(nodes.nodes(view.state, view.sources.measured())),
    "claims": lambda view, query: view.reply(
        {**claims.claims(view.state, query), "flags": view.flags()}
    ),
    "pci": lambda view, query: view.reply(pci.devices(view.state, query, view.ports)),
    "resources": lambda view, _: view.reply(pci.resources(view.state)),
    "migrations": lambda view, query: view.reply(claims.migrations(view.state, query)),
    "orphans": lambda view, _: view.reply(claims.orphans(view.state)),
    "drift": lambda view, _: view.reply(claims.drift(view.state)),
    "drains": lambda view, _: view.reply(claims.drains(view.state)),
    "numa": lambda view, _: view.reply(numa.hosts(view.state)),
    "capacity": lambda view, query: view.reply({"capacity": [view.capacity(query.get("flavor"))]}),
    "allocations": lambda view, _: view.reply(view.sources.allocations()),
    "events": lambda view, query: events.events(view.sources.events, query),
    "timeline": lambda view, query: view.reply(timeline(view.sources.more, query)),
    "history": lambda view, query: view.reply(history(view.sources.more, view.state, None, query)),
    "health": lambda view, _: health.health(view, view.sources.checks()),
    "ready": lambda view, _: health.ready(view, view.sources.creation_error()),
    "live": lambda view, _: health.live(view, view.sources.hung()),
    "metrics": lambda view, _: _metrics(view),
}

#: ``/NAME/ITEM``
ITEMS: Mapping[str, Callable[[View, str], Reply]] = {
    "nodes": lambda view, name: view.reply(nodes.node(view.state, name, view.sources.measured())),
    "claims": lambda view, uuid: view.reply(
        {**claims.claim(view.state, uuid), "flags": view.flags()}
    ),
    "pci": lambda view, address: view.reply(pci.device(view.state, address, view.ports)),
    "numa": lambda view, name: view.reply(numa.host(view.state, name)),
}

#: ``/NAME/ITEM/PART``
PARTS: Mapping[tuple[str, str], Callable[[View, str, Query], Reply]] = {
    ("claims", "history"): lambda view, uuid, query: view.reply(
        history(view.sources.more, view.state, uuid, query)
    )
}

#: The filters of each collection that has any.
FILTERS: Mapping[str, frozenset[str]] = {
    "capacity": capacity.FILTERS,
    "claims": claims.CLAIM_FILTERS,
    "events": events.FILTERS,
    "migrations": claims.MIGRATION_FILTERS,
    "pci": pci.FILTERS,
    "timeline": TIMELINE_FILTERS,
    "history": HISTORY_FILTERS,
    "claims/history": HISTORY_FILTERS,
}


_ROUTES = Routes(COLLECTIONS, ITEMS, FILTERS, PARTS)

#: The pages for people, see `PageRoutes`.
_PAGES: PageRoutes[View] = PageRoutes(
    pages={
        "": lambda view, _: host_map.host_map(
            view.state, view.cache.owners, ports=view.ports, room=view.room()
        ),
        **host_pages.PAGES,
    },
    items=host_pages.ITEMS,
    navigation=(Link(name="", label="Host map"), *host_pages.NAVIGATION),
    uncached=host_pages.UNCACHED,
)


def answer(sources: Sources, target: str) -> Reply:
    """The reply to a GET.

    :param target: path and query as in the request line, percent-encoded.
    """
    stale = sources.stale()
    view = View(sources=sources, state=sources.snapshot(), stale=stale)
    return _PAGES.answer(view, target) or _ROUTES.answer(view, target)
