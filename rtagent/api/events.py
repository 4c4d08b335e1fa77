"""``/events``: the recorded events as server-sent events, and the events in memory, while a client
reads them.
"""

import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from urllib.parse import quote

import msgspec

from rtagent.api.reply import Reply, ascii_body
from rtagent.errors import InvalidRequest
from rtagent.model.base import Value
from rtagent.model.event import EVENT_TYPES, RecordedEvents, event_id, parse_event_id

#: Seconds after the last request for which the events stay in memory.
WANTED = 60.0

#: The epoch and the number of an event.
Place = tuple[int, int]


class EventPage(Value, frozen=True, kw_only=True):
    """The answer to a request.

    :ivar documents: each an `EventDocument` in JSON. :ivar place: with which the next page begins.
    :ivar missed: how many events between the given place and the first document are not there any
        more. :ivar restored: the database went back in time since then, so that numbers repeat.
    :ivar complete: the page ends with the last event of the node.
    """

    documents: Sequence[bytes]
    place: str
    missed: int = 0
    restored: bool = False
    complete: bool = True


class EventTail:
    """Thread-safe. Requests return at once: they never wait for the database.

    A thread of the agent loads the events while `wanted`, so nothing is loaded without readers.
    """

    def __init__(
        self,
        sequence: Callable[[], int],
        kept: int,
        clock: Callable[[], float] = time.monotonic,
        wake: Callable[[], object] = bool,
    ) -> None:
        """:param sequence: returns the number of the last event. :param kept: how many events stay
        in memory. :param wake: is called when events have to be loaded.
        """
        self._sequence, self._kept, self._clock, self._wake = sequence, kept, clock, wake
        self._lock = threading.Lock()
        self._rows: list[RecordedEvents] = []
        self._loaded = False
        self._asked: float | None = None

    @property
    def wanted(self) -> bool:
        """Whether there was a request recently."""
        return self._asked is not None and self._clock() - self._asked < WANTED

    @property
    def last(self) -> int:
        """The number of the last event in memory, or 0."""
        rows = self._rows
        return rows[-1].last if rows else 0

    def extend(self, rows: Sequence[RecordedEvents], complete: bool) -> None:
        """Add rows that follow the last one. :param complete: there are no more at present."""
        with self._lock:
            self._rows.extend(rows)
            self._loaded = self._loaded or complete
            if self._rows:
                first = self._rows[-1].last - self._kept
                del self._rows[: bisect_left(self._rows, first, key=_last)]

    def forget(self) -> None:
        """Free the memory. The next request begins anew."""
        with self._lock:
            self._rows, self._loaded = [], False

    def page(self, after: Place | None, newest: int | None, limit: int) -> EventPage:
        """Return the events after a place.

        :param after: the place that the reader has reached; None: none.
        :param newest: without a place: begin with so many of the last events; None: with the first.
        :param limit: the maximum number of documents.
        """
        behind = self._note_request()
        with self._lock:
            rows, loaded = self._rows, self._loaded
            if not loaded:
                return EventPage(documents=(), place=_place(after), complete=False)
            last = rows[-1].last if rows else 0
            first = rows[0].first if rows else 1
            restored = after is not None and self._is_elsewhere(after, last)
            begin, missed = first, 0
            if after is not None and not restored:
                begin = max(first, after[1] + 1)
                missed = begin - after[1] - 1
            elif after is None and newest is not None:
                begin = max(first, last - newest + 1)
            end = min(last, begin + limit - 1)
            documents = tuple(_between(rows, begin, end))
            return EventPage(
                documents=documents,
                place=self._id(end) if end >= first else _place(after),
                missed=missed,
                restored=restored,
                complete=end == last and not behind,
            )

    def _note_request(self) -> bool:
        """Remember that a client reads. Return whether there are events that are not loaded yet."""
        first, self._asked = not self.wanted, self._clock()
        behind = not self._loaded or self._sequence() != self.last
        if first or behind:
            self._wake()
        return behind

    def _is_elsewhere(self, after: Place, last: int) -> bool:
        """Whether the place is of a history that the database has lost."""
        epoch, sequence = after
        if sequence > last:
            # Unless it was read from a page that is newer than this memory.
            return sequence > self._sequence()
        at = bisect_left(self._rows, sequence, key=_last)
        row = self._rows[at]
        return row.first <= sequence and row.epoch != epoch

    def _id(self, sequence: int) -> str:
        row = self._rows[bisect_left(self._rows, sequence, key=_last)]
        return event_id(row.epoch, sequence)


def _last(row: RecordedEvents) -> int:
    return row.last


def _place(after: Place | None) -> str:
    return "" if after is None else event_id(*after)


def _between(rows: Sequence[RecordedEvents], begin: int, end: int) -> list[bytes]:
    found: list[bytes] = []
    at = bisect_left(rows, begin, key=_last)
    while at < len(rows) and rows[at].first <= end:
        row = rows[at]
        found.extend(row.documents[max(0, begin - row.first) : end - row.first + 1])
        at += 1
    return found


def tail_of(rows: Sequence[RecordedEvents]) -> EventTail:
    """Return a tail that has these rows, and never more."""
    last = rows[-1].last if rows else 0
    tail = EventTail(lambda: last, last)
    tail.extend(rows, complete=True)
    return tail


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
