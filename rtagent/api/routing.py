"""Routing: finds the view of a path in the tables of an API."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, Generic, Protocol, TypeVar
from urllib.parse import parse_qsl, unquote

from rtagent.api.reply import JSON, Reply, problem, status_of
from rtagent.errors import InvalidRequest, RtAgentError

Query = Mapping[str, str]


class Replying(Protocol):
    """The data of one request."""

    def reply(
        self,
        content: Mapping[str, Any],
        status: HTTPStatus = HTTPStatus.OK,
        media_type: str = JSON,
    ) -> Reply:
        """Return a reply with this content."""
        ...


V = TypeVar("V", bound=Replying)


class Routes(Generic[V]):
    """The views of an API by path: ``/NAME``, ``/NAME/ITEM`` and ``/NAME/ITEM/PART``."""

    def __init__(
        self,
        collections: Mapping[str, Callable[[V, Query], Reply]],
        items: Mapping[str, Callable[[V, str], Reply]],
        filters: Mapping[str, frozenset[str]],
        parts: Mapping[tuple[str, str], Callable[[V, str, Query], Reply]] | None = None,
    ) -> None:
        """
        :param filters: those of each collection that has any, and those of parts by their path
            without the item: ``claims/history``.
        :param parts: of items, by the names of the collection and of the part.
        """
        self._collections, self._items, self._filters = collections, items, filters
        self._parts = parts or {}

    def answer(self, view: V, target: str) -> Reply:
        """The reply to a GET.

        :param target: path and query as in the request line, percent-encoded.
        """
        try:
            return self._dispatch(view, target)
        except RtAgentError as error:
            return view.reply(error.as_dict(), status_of(error))

    def _dispatch(self, view: V, target: str) -> Reply:
        path, _, query = target.partition("?")
        segments = [unquote(part) for part in path.strip("/").split("/")]
        if len(segments) == 1 and segments[0] in self._collections:
            return self._collections[segments[0]](view, self._query(segments[0], query))
        if len(segments) == 2 and segments[0] in self._items:
            return self._items[segments[0]](view, segments[1])
        if len(segments) == 3 and (segments[0], segments[2]) in self._parts:
            asked = self._query(f"{segments[0]}/{segments[2]}", query)
            return self._parts[segments[0], segments[2]](view, segments[1], asked)
        known = ", ".join(f"/{name}" for name in self._collections)
        missing = problem(HTTPStatus.NOT_FOUND, f"nothing is at {path}; there are {known}")
        return view.reply(missing, HTTPStatus.NOT_FOUND)

    def _query(self, name: str, text: str) -> Query:
        query = dict(parse_qsl(text, keep_blank_values=True))
        allowed = self._filters.get(name, frozenset())
        unknown = sorted(query.keys() - allowed)
        if unknown:
            rule = f"not a filter of /{name}; there are: {', '.join(sorted(allowed)) or 'none'}"
            raise InvalidRequest(
                method=f"GET /{name}", errors=[{"path": each, "message": rule} for each in unknown]
            )
        return query
