"""The pages of an agent but the host map: claims, one claim, timeline, history."""

from collections.abc import Callable, Mapping
from typing import Protocol

from rtagent.api.page import claims, fit, timeline
from rtagent.api.page.queries import PageQuery
from rtagent.api.page.rendering import Content, Later
from rtagent.api.page.routes import Link, Paged, Query, period
from rtagent.api.page.sources import PageSources
from rtagent.errors import Unavailable
from rtagent.model.claim import HistoryPage
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
    return Later(version=period(now), make=lambda: claims.claim_table(view.state, query, now))


def _claim(view: HostView, uuid: str, query: Query) -> Later:
    """The history is read here, for each request: its own cache knows when it has changed."""
    sources = view.sources.more
    now, claim = sources.now(), view.state.claims.get(uuid)
    history: HistoryPage | Unavailable
    try:
        history = sources.history(view.state, uuid, _before(claims.PATH, query))
    except Unavailable as error:
        history = error
    document = None if claim is None else sources.document(claim.owner_id)

    def make() -> Content:
        compared = None if claim is None else sources.comparison(view.state, claim, document)
        return claims.claim_page(view.state, uuid, query, history, compared, now)

    newest = history.message if isinstance(history, Unavailable) else history.events[:1]
    read = None if document is None else document.at
    return Later(version=(period(now), newest, read), make=make)


def _fit(view: HostView, query: Query) -> Content:
    sources = view.sources.more
    return fit.fit_page(
        view.state, view.cache.owners, query, sources.test_claim, sources.root_ports()
    )


def _timeline(view: HostView, query: Query) -> Later:
    """It is rendered anew each two seconds at most, and shows everything until then."""
    sources = view.sources.more
    return Later(
        version=period(sources.now(), 2),
        make=lambda: timeline.timeline_page(sources.timeline(), query),
    )


def _history(view: HostView, query: Query) -> Later:
    sources = view.sources.more
    page = sources.history(view.state, None, _before(claims.HISTORY, query))
    now = sources.now()
    return Later(
        version=(period(now), page.events[:1]), make=lambda: claims.history_page(page, query, now)
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
