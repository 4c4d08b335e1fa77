"""PageRoutes: finds the page of a path, and renders it in the frame that all pages share.

PageCache: renders a page once for each version of its data, whatever the number of viewers.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from datetime import datetime
from http import HTTPStatus
from typing import Any, Generic, Protocol, TypeVar
from urllib.parse import parse_qsl, unquote

import rtagent
from rtagent.api.page.host_map import KeptRoom
from rtagent.api.page.owners import OwnerRows
from rtagent.api.page.rendering import Content, Later, asset, render
from rtagent.api.reply import Reply, problem, status_of
from rtagent.errors import RtAgentError
from rtagent.model.base import Value

#: The first segment of every page's path but the first page's.
PAGE = "page"

Query = Mapping[str, str]

#: Pages that are kept. A page with other filters is another page.
SIZE = 32
#: A page is shown for so many times the time that its rendering took, also if its data are newer
#: by then. So each page uses a fifth of a CPU at most, also while claims come and go all the time.
PAUSE = 4
#: Seconds after which newer data are shown in any case.
LONGEST_PAUSE = 0.5


class _Rendered(Value, frozen=True, kw_only=True):
    """:ivar until: of the monotonic clock: until then it is shown in any case."""

    version: Hashable
    reply: Reply
    until: float


class PageCache:
    """Thread-safe. One thread renders, and the others that want a page wait for it.

    :ivar owners: with their badges, which all pages share. :ivar room: what still fits.
    :ivar waiting: the one request that waits for a count holds it. The others do not wait, so that
        viewers take no threads from others.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.owners = OwnerRows(linked=True)
        self.room = KeptRoom(clock)
        self.waiting = threading.Lock()
        self._clock = clock
        self._lock = threading.Lock()
        self._pages: OrderedDict[str, _Rendered] = OrderedDict()

    def reply(self, target: str, version: Hashable, render: Callable[[], Reply]) -> Reply:
        """Return the page at a path and query.

        :param version: of its data; a page is rendered again when it differs.
        """
        with self._lock:
            known = self._pages.get(target)
            began = self._clock()
            if known is not None and (known.version == version or began < known.until):
                self._pages.move_to_end(target)
                return known.reply
            made = render()
            ended = self._clock()
            until = ended + min(LONGEST_PAUSE, PAUSE * (ended - began))
            self._pages[target] = _Rendered(version=version, reply=made, until=until)
            self._pages.move_to_end(target)
            if len(self._pages) > SIZE:
                self._pages.popitem(last=False)
            return made


class Paged(Protocol):
    """The data of one request, of which pages are made."""

    @property
    def cache(self) -> PageCache:
        """The pages that were rendered before."""

    @property
    def version(self) -> Hashable:
        """The version of the data. As long as it is the same, so are the pages."""

    def frame(self) -> Mapping[str, Any]:
        """Return what the frame of every page shows: ``place`` (the host), ``status`` and
        ``notices``."""


V = TypeVar("V", bound=Paged)


class Link(Value, frozen=True, kw_only=True):
    """A page in the navigation. :ivar name: ``""`` for the first page, else ``/page/NAME``."""

    name: str
    label: str

    @property
    def path(self) -> str:
        """The path of the page."""
        return f"/{PAGE}/{self.name}" if self.name else "/"


class PageRoutes(Generic[V]):
    """The pages of an API.

    Each function returns what its page shows. It raises an `RtAgentError` as the views of documents
    do; the page then shows that error.

    The function of an ``uncached`` page is called for each request, outside of all locks, so it may
    wait for a short time. It may return `Later`, so that the page itself is cached nevertheless.
    """

    def __init__(
        self,
        pages: Mapping[str, Callable[[V, Query], Content | Later]],
        items: Mapping[str, Callable[[V, str, Query], Content | Later]],
        navigation: Sequence[Link],
        uncached: frozenset[str] = frozenset(),
    ) -> None:
        """
        :param pages: by name: ``/page/NAME``, and ``""`` for ``/``.
        :param items: by name: ``/page/NAME/ITEM``.
        :param uncached: names of pages that show more than the versioned data, such as a time.
        """
        self._pages, self._items = pages, items
        self._navigation, self._uncached = tuple(navigation), uncached

    def answer(self, view: V, target: str) -> Reply | None:
        """Return the page, or the asset, at a path and query; None: the path is not a page's."""
        path, _, query = target.partition("?")
        segments = [unquote(part) for part in path.strip("/").split("/")]
        if path == "/":
            return self._page(view, target, "", None, query)
        if segments[0] != PAGE:
            return None
        if len(segments) == 4 and segments[1] == "static":
            content = asset(segments[2], segments[3])
            if content is not None:
                return content
        if len(segments) == 2 and segments[1] in self._pages and segments[1]:
            return self._page(view, target, segments[1], None, query)
        if len(segments) == 3 and segments[1] in self._items:
            return self._page(view, target, segments[1], segments[2], query)
        missing = problem(HTTPStatus.NOT_FOUND, f"No page is at {path}.")
        return self._render(view, "", _error(missing, HTTPStatus.NOT_FOUND))

    def _page(self, view: V, target: str, name: str, item: str | None, query: str) -> Reply:
        filters = dict(parse_qsl(query, keep_blank_values=True))

        def found() -> Content | Later:
            if item is None:
                return self._pages[name](view, filters)
            return self._items[name](view, item, filters)

        def rendered(make: Callable[[], Content | Later]) -> Reply:
            content = _shown(make)
            made = _shown(content.make) if isinstance(content, Later) else content
            assert isinstance(made, Content), "a page is made at once, or later; not later still"
            return self._render(view, name, made)

        if name not in self._uncached:
            return view.cache.reply(target, view.version, lambda: rendered(found))
        content = _shown(found)
        if isinstance(content, Content):
            return rendered(lambda: content)
        version = view.version, content.version
        return view.cache.reply(target, version, lambda: rendered(lambda: content))

    def _render(self, view: V, name: str, content: Content) -> Reply:
        frame = {
            "navigation": self._navigation,
            "page_name": name,
            "release": rtagent.__version__,
            **view.frame(),
        }
        return render(content, frame)


def period(now: datetime, seconds: int = 10) -> int:
    """Return what changes after so many seconds: a page with ages is rendered again then."""
    return int(now.timestamp()) // seconds


def _shown(make: Callable[[], Content | Later]) -> Content | Later:
    """Return what is made, or the error that it raises."""
    try:
        return make()
    except RtAgentError as error:
        return _error(error.as_dict(), status_of(error))


def _error(error: Mapping[str, Any], status: HTTPStatus) -> Content:
    values = {"error": error["error"], "message": error["message"]}
    return Content(template="error.html", values=values, status=status)
