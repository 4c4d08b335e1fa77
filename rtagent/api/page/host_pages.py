"""The pages of an agent but the host map: claims, one claim, timeline, history."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from rtagent.api.page import claim, claim_table, fit, timeline
from rtagent.api.page.queries import PageQuery
from rtagent.api.page.rendering import Content, Later
from rtagent.api.page.routes import Link, Paged, Query
from rtagent.api.page.sources import PageSources
from rtagent.errors import Unavailable
from rtagent.model.claim_event import HistoryPage
from rtagent.model.node_state import NodeState


class Sourced(Protocol):
    """The sources of a view."""

    @property
    def more(self) -> PageSources: ...


class HostView(Paged, Protocol):
    """The data of one request."""

    @property
    def state(self) -> NodeState: ...

    @property
    def sources(self) -> Sourced: ...


def _claims(view: HostView, query: Query) -> Later:
    now = view.sources.more.now()
    return Later(
        version=timeline.version(now),
        make=lambda: claim_table.claim_table(view.state, query, now),
    )


def _claim(view: HostView, uuid: str, query: Query) -> Later:
    """The history is read here, for each request: its own cache knows when it has changed."""
    sources = view.sources.more
    now, found = sources.now(), view.state.claims.get(uuid)
    history: HistoryPage | Unavailable
    try:
        history = sources.history(view.state, uuid, _before(claim.PATH, query))
    except Unavailable as error:
        history = error
    document = None if found is None else sources.document(found.owner_id)

    def make() -> Content:
        compared = None if found is None else sources.comparison(view.state, found, document)
        return claim.claim_page(view.state, uuid, query, history, compared, now)

    newest = history.message if isinstance(history, Unavailable) else history.events[:1]
    read = None if document is None else document.at
    return Later(version=(timeline.version(now), newest, read), make=make)


def _fit(view: HostView, query: Query) -> Content:
    sources = view.sources.more
    return fit.fit_page(
        view.state, view.cache.owners, query, sources.test_claim, sources.root_ports()
    )


def _timeline(view: HostView, query: Query) -> Later:
    """It is rendered anew each two seconds at most, and shows everything until then."""
    sources = view.sources.more
    return Later(
        version=timeline.version(sources.now(), 2),
        make=lambda: timeline.timeline_page(sources.timeline(), query),
    )


def _history(view: HostView, query: Query) -> Later:
    sources = view.sources.more
    page = sources.history(view.state, None, _before(timeline.HISTORY, query))
    now = sources.now()
    return Later(
        version=(timeline.version(now), page.events[:1]),
        make=lambda: timeline.history_page(page, query, now),
    )


def _before(path: str, query: Query) -> int | None:
    return PageQuery(path, query, {"before"}).number("before") or None


#: By name: ``/page/NAME``.
PAGES: Mapping[str, Callable[[HostView, Query], Content | Later]] = {
    "claims": _claims,
    "fit": _fit,
    "timeline": _timeline,
    "history": _history,
}
#: By name: ``/page/NAME/ITEM``.
ITEMS: Mapping[str, Callable[[HostView, str, Query], Content | Later]] = {"claims": _claim}

#: They show more than the state.
UNCACHED = frozenset(PAGES) - {"fit"}

NAVIGATION = (
    Link(name="claims", label="Claims"),
    Link(name="fit", label="Would it fit?"),
    Link(name="timeline", label="Timeline"),
)
