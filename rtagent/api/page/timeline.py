"""The timeline: what has happened within the last hour, as a chart and as a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from rtagent.api.page.histories import history_rows
from rtagent.api.page.queries import PageQuery
from rtagent.api.page.rendering import Content
from rtagent.api.page.times import Moment, duration, moment
from rtagent.model.base import Value
from rtagent.model.claim_event import HistoryPage
from rtagent.model.timeline import ENTRY_KIND, Kind, TimelineEntry, TimelineView

PATH, HISTORY = "/page/timeline", "/page/history"
NAMES = frozenset({"kind", "from"})
#: Rows of one page.
ROWS = 200
#: Units of the chart: seconds of width, and height of a lane.
WIDTH, HEIGHT = 3600, 40
#: The smallest width of a mark on the chart, seconds.
THIN = 10
MINUTE = 60

LABELS: Mapping[Kind, str] = {
    "outage": "Outages",
    "refusal": "Refusals",
    "move": "Moves",
    "audit": "Audits",
    "claim": "Steps of claims",
}


class Bar(Value, frozen=True, kw_only=True):
    """A mark on the chart. :ivar tone: the status, by which it is coloured."""

    x: float
    y: float
    width: float
    height: float
    tone: str


class Lane(Value, frozen=True, kw_only=True):
    """One kind on the chart. :ivar words: what it shows. :ivar peak: of one minute, or 0."""

    kind: Kind
    label: str
    number: int
    peak: int
    words: str
    bars: tuple[Bar, ...]


class Row(Value, frozen=True, kw_only=True):
    """One entry of the table. :ivar lasted: how long it took, or has lasted so far."""

    kind: Kind
    at: Moment
    status: str
    subject: str
    summary: str
    number: int
    lasted: str
    lasts: bool


def timeline_page(view: TimelineView, query: Mapping[str, str]) -> Content:
    """Return the timeline."""
    asked = PageQuery(PATH, query, NAMES)
    kind = asked.choice("kind", ENTRY_KIND)
    found = [each for each in view.entries if kind in ("", each.kind)]
    part = asked.part(len(found), ROWS)
    start = part["start"]
    begin = view.now - timedelta(seconds=WIDTH)
    return Content(
        template="timeline.html",
        values={
            "lanes": [_lane(each, view.entries, begin, view.now) for each in ENTRY_KIND],
            "labels": LABELS,
            "kind": kind,
            "missing": max(0.0, (view.since - begin).total_seconds()),
            "since": moment(view.since, view.now),
            "width": WIDTH,
            "height": HEIGHT,
            "rows": [_row(each, view.now) for each in found[start : start + ROWS]],
            "found": len(found),
            **part,
        },
    )


def history_page(page: HistoryPage, query: Mapping[str, str], now: datetime) -> Content:
    """Return the recorded history of all claims."""
    asked = PageQuery(HISTORY, query, {"before"})
    return Content(
        template="history.html",
        values={
            "history": history_rows(page.events, now),
            "older": asked.link(before=page.older) if page.older else "",
            "newest": HISTORY if asked.number("before") else "",
        },
    )


def _lane(kind: Kind, entries: Iterable[TimelineEntry], begin: datetime, now: datetime) -> Lane:
    mine = [each for each in entries if each.kind == kind]
    counted = kind in ("refusal", "claim")
    bars, peak = _columns(mine, begin) if counted else (tuple(_spans(mine, begin, now)), 0)
    number = sum(each.number for each in mine)
    words = f"{LABELS[kind]}: {number} within the last hour"
    return Lane(
        kind=kind,
        label=LABELS[kind],
        number=number,
        peak=peak,
        words=f"{words}, up to {peak} a minute" if peak else words,
        bars=bars,
    )


def _spans(entries: Sequence[TimelineEntry], begin: datetime, now: datetime) -> Iterator[Bar]:
    """Yield a bar for each entry, from its begin to its end, or to the right edge if it lasts."""
    for each in reversed(entries):
        start = _second(each.at, begin)
        width = max(THIN, _second(each.until or now, begin) - start)
        yield Bar(
            x=min(start, WIDTH - THIN), y=0, width=width, height=HEIGHT, tone=each.status.value
        )


def _columns(entries: Iterable[TimelineEntry], begin: datetime) -> tuple[tuple[Bar, ...], int]:
    """The numbers of each minute as columns, and the largest of them."""
    minutes: dict[int, int] = {}
    tones: dict[int, str] = {}
    for each in entries:
        minute = int(_second(each.at, begin) // MINUTE)
        minutes[minute] = minutes.get(minute, 0) + each.number
        tones[minute] = each.status.value
    peak = max(minutes.values(), default=0)
    bars = []
    for minute, number in sorted(minutes.items()):
        height = round(max(3.0, HEIGHT * number / peak), 1)
        bars.append(
            Bar(
                x=minute * MINUTE + 6,
                y=HEIGHT - height,
                width=MINUTE - 12,
                height=height,
                tone=tones[minute],
            )
        )
    return tuple(bars), peak


def _second(at: datetime, begin: datetime) -> float:
    return round(min(float(WIDTH), max(0.0, (at - begin).total_seconds())), 1)


def _row(entry: TimelineEntry, now: datetime) -> Row:
    seconds = ((entry.until or now) - entry.at).total_seconds()
    return Row(
        kind=entry.kind,
        at=moment(entry.at, now),
        status=entry.status.value,
        subject=entry.subject,
        summary=entry.summary,
        number=entry.number,
        lasted=duration(seconds) if entry.kind in ("audit", "outage") else "",
        lasts=entry.until is None,
    )


def version(now: datetime, seconds: int = 10) -> Any:
    """Return what changes after so many seconds: a page with ages is rendered again then."""
    return int(now.timestamp()) // seconds
