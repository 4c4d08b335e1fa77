"""The pages of an agent but the host map: claims, one claim, timeline, history. PageSources: what
they and documents show in addition to the published state.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, NoReturn, Protocol

from rtagent.api.page import claims, fit, timeline
from rtagent.api.page.queries import PageQuery
from rtagent.api.page.rendering import Content, Later
from rtagent.api.page.routes import Link, Paged, Query, period
from rtagent.errors import Unavailable
from rtagent.model.base import Value
from rtagent.model.claim import Claim, HistoryPage
from rtagent.model.decision import Decision
from rtagent.model.device import NO_ROOT_PORTS, RootPorts
from rtagent.model.guest import DomainDocument, GuestComparison
from rtagent.model.node_state import NodeState
from rtagent.model.timeline import TimelineView


def _unavailable(*_: object) -> NoReturn:
    raise Unavailable("this is not available here")


def _no_timeline() -> TimelineView:
    now = datetime.now(UTC)
    return TimelineView(now=now, since=now)


class PageSources(Value, frozen=True, kw_only=True):
    """The callables return at once and without a lock of the tracker; `history` alone reads the
    database, in bounded time.

    :ivar history: the newest events of a claim, or of all claims (None), before a number.
    :ivar timeline: the last hour.
    :ivar document: the domain of an owner, as it was last read.
    :ivar comparison: the guest that a claim determines, compared with that domain.
    :ivar test_claim: decides the arguments of the RPC method of that name on the published state.
    :ivar root_ports: of the host's devices, as last observed.
    :ivar now: the time, for ages.
    """

    history: Callable[[NodeState, str | None, int | None], HistoryPage] = _unavailable
    timeline: Callable[[], TimelineView] = _no_timeline
    document: Callable[[str], DomainDocument | None] = lambda _: None
    comparison: Callable[[NodeState, Claim, DomainDocument | None], GuestComparison] = lambda *_: (
        GuestComparison(lines=())
    )
    test_claim: Callable[[Mapping[str, Any]], Decision] = _unavailable
    root_ports: Callable[[], RootPorts] = lambda: NO_ROOT_PORTS
    now: Callable[[], datetime] = lambda: datetime.now(UTC)


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
