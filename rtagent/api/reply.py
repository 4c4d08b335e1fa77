"""Reply: a status and a body, before HTTP. Routes: the tables of an API, by path."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, Generic, Protocol, TypeVar
from urllib.parse import parse_qsl, unquote

import msgspec

from rtagent import errors
from rtagent.model.address import PCI_ADDRESS
from rtagent.model.base import UUID, Value

JSON = "application/json"

#: The status of each error that a view may raise. Any other error is a defect.
STATUS: Mapping[type[errors.RtAgentError], HTTPStatus] = {
    errors.InvalidRequest: HTTPStatus.BAD_REQUEST,
    errors.NotFound: HTTPStatus.NOT_FOUND,
    errors.Unavailable: HTTPStatus.SERVICE_UNAVAILABLE,
}


#: A document shows the state of one moment.
NOT_STORED: Mapping[str, str] = MappingProxyType({"Cache-Control": "no-store"})

#: Characters that JSON need not escape: not ASCII, and DEL.
_NOT_ASCII = re.compile(r"[^\x00-\x7e]")


class Reply(Value, frozen=True, kw_only=True):
    """:ivar body: the whole body, also of a reply to HEAD, which does not send it.
    :ivar headers: those other than type and length. A reply with an ``ETag`` is sent only if
        the client does not have it yet.
    """

    status: HTTPStatus = HTTPStatus.OK
    media_type: str = JSON
    body: bytes
    headers: Mapping[str, str] = NOT_STORED


def document(
    content: Mapping[str, Any], status: HTTPStatus = HTTPStatus.OK, media_type: str = JSON
) -> Reply:
    """Encode values and primitives as a JSON document that ends with a line feed.

    It is pure ASCII, and without controls: names from outside may reach the terminal of a reader.
    """
    body = ascii_body(msgspec.json.encode(content) + b"\n")
    return Reply(status=status, media_type=media_type, body=body)


def ascii_body(body: bytes) -> bytes:
    """Escape every character of JSON documents that is not ASCII, and DEL."""
    if body.isascii() and b"\x7f" not in body:
        return body
    return _NOT_ASCII.sub(_escaped, body.decode()).encode("ascii")


def problem(status: HTTPStatus, message: str) -> Mapping[str, Any]:
    """An error of HTTP in the form of all errors: ``{"error", "message", "retriable"}``."""
    return {
        "error": status.phrase.title().replace(" ", ""),
        "message": message,
        "retriable": status == HTTPStatus.SERVICE_UNAVAILABLE,
    }


def failure(status: HTTPStatus, message: str) -> Reply:
    """A reply with a `problem`."""
    return document(problem(status, message), status)


def status_of(error: errors.RtAgentError) -> HTTPStatus:
    """The status of a reply with that error."""
    known = (status for type_, status in STATUS.items() if isinstance(error, type_))
    return next(known, HTTPStatus.INTERNAL_SERVER_ERROR)


def _escaped(found: re.Match[str]) -> str:
    return json.dumps(found[0])[1:-1] if found[0] != "\x7f" else r"\u007f"


Query = Mapping[str, str]

#: What is wrong with the value of a filter, or None.
Rule = Callable[[str], str | None]


def one_of(values: Iterable[str]) -> Rule:
    """Return the rule of a filter whose values are all known."""
    allowed = list(values)
    return lambda value: None if value in allowed else f"not one of {', '.join(allowed)}"


def _of_form(pattern: str, message: str) -> Rule:
    form = re.compile(pattern.removesuffix("$"))
    return lambda value: None if form.fullmatch(value) else message


a_uuid = _of_form(UUID, "must be a uuid, in lower case and with its dashes")
an_address = _of_form(PCI_ADDRESS, "must be a PCI address like 0000:08:00.0, in lower case")


def check(name: str, filters: Query, rules: Mapping[str, Rule]) -> None:
    """Check the filters of a collection.

    :param rules: by filter; others may have any value.
    :raises InvalidRequest: nothing can have such a value.
    """
    mistakes = [
        {"path": filter_, "message": message}
        for filter_, rule in sorted(rules.items())
        if filter_ in filters and (message := rule(filters[filter_])) is not None
    ]
    if mistakes:
        raise errors.InvalidRequest(method=f"GET /{name}", errors=mistakes)


class Replying(Protocol):
    """The data of one request."""

    def reply(
        self, content: Mapping[str, Any], status: HTTPStatus = HTTPStatus.OK, media_type: str = JSON
    ) -> Reply:
        """Return a reply with this content."""


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
        except errors.RtAgentError as error:
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
        pairs = parse_qsl(text, keep_blank_values=True)
        names = Counter(filter_ for filter_, _ in pairs)
        allowed = self._filters.get(name, frozenset())
        rule = f"not a filter of /{name}; there are: {', '.join(sorted(allowed)) or 'none'}"
        mistakes = [
            {"path": filter_, "message": "given more than once" if filter_ in allowed else rule}
            for filter_, number in sorted(names.items())
            if number > 1 or filter_ not in allowed
        ]
        if mistakes:
            raise errors.InvalidRequest(method=f"GET /{name}", errors=mistakes)
        return dict(pairs)
