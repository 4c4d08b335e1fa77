"""``/events``: finite replies that continue each other, without a gap that is not shown."""

import json
from http import HTTPStatus

import pytest
from msgspec.structs import replace

from rtagent.api.application import Application
from rtagent.api.client import EventStream
from rtagent.api.events import LIMIT, EventTail, tail_of
from rtagent.model.event import RecordedEvents
from rtagent.ports import NullReporter
from tests.support.api_states import sources

HOSTILE = '</script>\u202e\x7f\u2028"\n\ndata: x'


def row(last: int, number: int = 1, epoch: int = 1, type_: str = "claim.create") -> RecordedEvents:
    events = (
        {"sequence": n, "id": f"{epoch}-{n}", "event_type": type_, "payload": HOSTILE}
        for n in range(last - number + 1, last + 1)
    )
    documents = tuple(json.dumps(e, ensure_ascii=False).encode() for e in events)
    return RecordedEvents(last=last, epoch=epoch, documents=documents)


def get(tail: EventTail, target: str = "/events", **environ: str) -> tuple[int, str]:
    started: list = []
    application = Application(replace(sources(), events=tail), NullReporter())
    environ = {"REQUEST_METHOD": "GET", "REQUEST_URI": target, **environ}
    body = application(environ, lambda *start: started.append(start))
    ((status, headers),) = started
    stream = status.startswith("200") and target.startswith("/events")
    assert dict(headers)["Content-Type"] == ("text/event-stream" if stream else "application/json")
    return int(status[:3]), b"".join(body).decode("ascii")


def stream(tail: EventTail, **options) -> EventStream:
    def read(filters):
        query = "&".join(f"{name}={value}" for name, value in filters.items())
        status, text = get(tail, f"/events?{query}" if query else "/events")
        assert status == HTTPStatus.OK, text
        return text

    return EventStream(read, **options)


def numbers(received) -> list[int]:
    return [event["sequence"] for event in received.events]


def test_a_reader_gets_every_event_once_over_many_replies():
    tail = tail_of([row(last=n, number=40) for n in range(40, 1240, 40)])
    reader, seen = stream(tail), []
    while not (received := reader.next()).complete:
        assert len(received.events) == LIMIT
        seen += numbers(received)
    assert [*seen, *numbers(received)] == list(range(1, 1201))
    assert reader.next().events == () and reader.place == "1-1200"


def test_the_header_of_a_browser_that_comes_back_goes_first():
    tail = tail_of([row(1), row(2), row(3)])
    _, text = get(tail, "/events?last_event_id=1-1&newest=3", HTTP_LAST_EVENT_ID="1-2")
    assert text.count("\ndata: ") == 1 and '"sequence": 3' in text
    _, text = get(tail, "/claims", HTTP_LAST_EVENT_ID="nonsense")
    assert "error" not in text


@pytest.mark.parametrize(("newest", "expected"), [(0, []), (2, [4, 5]), (9, [1, 2, 3, 4, 5])])
def test_a_reader_may_begin_with_the_newest(newest, expected):
    reader = stream(tail_of([row(3, 3), row(5, 2)]), newest=newest)
    assert numbers(reader.next()) == expected
    assert reader.place == "1-5"


def test_types_are_filtered_and_the_place_moves_on():
    tail = tail_of([row(1), row(2, type_="claim.release"), row(3, type_="move.start")])
    for types, expected in (("claim", [1, 2]), ("claim.release,move", [2, 3]), ("audit", [])):
        reader = stream(tail)
        assert numbers(reader.next(types)) == expected
        assert reader.place == "1-3"


def test_events_that_are_not_kept_any_more_are_a_gap():
    reader = stream(tail_of([row(12, 2), row(13)]), place="1-4")
    received = reader.next()
    assert (received.gap, numbers(received)) == ({"missed": 6, "restored": False}, [11, 12, 13])
    assert reader.next().gap is None


@pytest.mark.parametrize("place", ["1-9", "3-2"])
def test_a_database_that_went_back_in_time_is_a_gap(place):
    reader = stream(tail_of([row(1), row(2), row(3, epoch=2)]), place=place)
    received = reader.next()
    assert received.gap == {"missed": 0, "restored": True}
    assert (numbers(received), reader.place) == ([1, 2, 3], "2-3")


def test_nothing_is_loaded_without_readers_and_a_request_does_not_wait():
    now, woken = [0.0], []
    tail = EventTail(lambda: 3, 100, lambda: now[0], lambda: woken.append(True))
    assert not tail.wanted
    reader = stream(tail, newest=2)
    received = reader.next()
    assert (received.complete, received.events, reader.place) == (False, (), "")
    assert tail.wanted and woken and received.retry < 0.5
    tail.extend([row(2, 2)], complete=True)
    received = reader.next()
    assert (numbers(received), received.complete) == ([1, 2], False)  # one is not loaded yet
    tail.extend([row(3)], complete=True)
    received = reader.next()
    assert (numbers(received), received.complete) == ([3], True)
    now[0] = 1000.0
    assert not tail.wanted


def test_memory_is_bounded():
    tail = EventTail(lambda: 500, 100)
    for last in range(10, 510, 10):
        tail.extend([row(last, 10)], complete=True)
    assert 100 <= len(tail.page(None, None, 1000).documents) <= 110


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("last_event_id=x", "last_event_id"),
        ("last_event_id=1-%D9%A3", "last_event_id"),
        (f"last_event_id=1-{'9' * 99}", "last_event_id"),
        ("newest=-1", "newest"),
        (f"newest={'9' * 99}", "newest"),
        ("type=claim.nothing", "type"),
        ("type=", "type"),
        ("types=claim", "types"),
    ],
)
def test_a_wrong_parameter_is_named(query, path):
    status, text = get(tail_of([row(1)]), f"/events?{query}")
    document = json.loads(text)
    assert (status, document["error"]) == (HTTPStatus.BAD_REQUEST, "InvalidRequest")
    assert document["errors"][0]["path"] == path
