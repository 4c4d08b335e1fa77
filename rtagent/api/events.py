"""``/events``: the recorded events as server-sent events.

A reply is finite: it has the events since the last one that the reader has, and the reader comes
back soon, as every browser's ``EventSource`` does by itself. So a reader occupies no thread.
"""

from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import quote

import msgspec

from rtagent.api.event_tail import EventPage, EventTail, Place
from rtagent.api.reply import Reply, ascii_body
from rtagent.errors import InvalidRequest
from rtagent.model.base import Value
from rtagent.model.event import EVENT_TYPES, parse_event_id

MEDIA_TYPE = "text/event-stream"

#: Events in one reply.
LIMIT = 500
#: Milliseconds after which a reader comes back: when it has everything, and when there is more.
RETRY, RETRY_SOON = 1000, 50

#: The query parameter with the place that a reader has reached, and the header of the standard.
LAST_EVENT_ID = "last_event_id"
HEADER = "HTTP_LAST_EVENT_ID"
FILTERS = frozenset({LAST_EVENT_ID, "type", "newest"})


class _Typed(Value, frozen=True, kw_only=True):
    event_type: str


_decode = msgspec.json.Decoder(_Typed).decode


def with_last_event_id(target: str, environ: Mapping[str, object]) -> str:
    """Return path and query with the header of a reader that comes back, in the place of what it
    has asked for at first.
    """
    path, _, query = target.partition("?")
    if HEADER not in environ or path.strip("/") != "events":
        return target
    others = (
        part for part in query.split("&") if part and not part.startswith(f"{LAST_EVENT_ID}=")
    )
    reached = f"{LAST_EVENT_ID}={quote(str(environ[HEADER]), encoding='latin-1')}"
    return f"{path}?{'&'.join((*others, reached))}"


def events(tail: EventTail, query: Mapping[str, str]) -> Reply:
    """Return the events since the place that the reader has reached.

    :raises InvalidRequest: a parameter is wrong.
    """
    types = _types(query.get("type"))
    page = tail.page(_after(query.get(LAST_EVENT_ID)), _newest(query.get("newest")), LIMIT)
    return Reply(body=ascii_body(b"".join(_blocks(page, types))), media_type=MEDIA_TYPE)


def _blocks(page: EventPage, types: Sequence[str]) -> Iterator[bytes]:
    yield b"retry: %d\n\n" % (RETRY if page.complete else RETRY_SOON)
    if page.missed or page.restored:
        gap = msgspec.json.encode({"missed": page.missed, "restored": page.restored})
        yield b"event: gap\ndata: %s\n\n" % gap
    for document in page.documents:
        if not types or _wanted(document, types):
            yield b"data: %s\n\n" % document
    # Without data it is no event, and yet the reader comes back with it.
    if page.place:
        yield b"id: %s\n\n" % page.place.encode()
    yield b": %s\n\n" % (b"complete" if page.complete else b"more")


def _wanted(document: bytes, types: Sequence[str]) -> bool:
    name = _decode(document).event_type
    return any(name == each or name.startswith(f"{each}.") for each in types)


def _types(text: str | None) -> Sequence[str]:
    if text is None:
        return ()
    types = text.split(",")
    known = {*EVENT_TYPES, *(name.rpartition(".")[0] for name in EVENT_TYPES)}
    for each in types:
        if each not in known:
            rule = f"{each!r} is no type of events; there are: {', '.join(sorted(known))}"
            raise InvalidRequest.at("GET /events", "type", rule)
    return types


def _after(text: str | None) -> Place | None:
    if not text:
        return None
    place = parse_event_id(text)
    if place is None:
        raise InvalidRequest.at(
            "GET /events",
            LAST_EVENT_ID,
            "must be the id of an event, EPOCH-SEQUENCE, such as 3-120",
        )
    return place


def _newest(text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= 9):
        raise InvalidRequest.at("GET /events", "newest", "must be a number of events, from 0")
    return int(text)
