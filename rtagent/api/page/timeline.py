"""The timeline: what has happened within the last hour, as a chart and as a table."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from rtagent.api.page.queries import PageQuery
from rtagent.api.page.rendering import Content
from rtagent.model.base import Value
from rtagent.model.timeline import ENTRY_KIND, Kind, TimelineEntry, TimelineView

PATH = "/page/timeline"
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
    y: float = 0
    width: float
    height: float = HEIGHT
    tone: str


def timeline_page(view: TimelineView, query: Mapping[str, str]) -> Content:
    """Return the timeline."""
    asked = PageQuery(PATH, query, NAMES)
    kind = asked.choice("kind", ENTRY_KIND)
    entries = [entry for entry in view.entries if kind in ("", entry.kind)]
    begin = view.now - timedelta(seconds=WIDTH)
    return Content(
        template="timeline.html",
        values={
            "lanes": {each: _lane(each, view, begin) for each in ENTRY_KIND},
            "labels": LABELS,
            "kind": kind,
            "missing": max(0.0, (view.since - begin).total_seconds()),
            "since": view.since,
            "now": view.now,
            "width": WIDTH,
            "height": HEIGHT,
            **asked.part(entries, ROWS),
        },
    )


def _lane(kind: Kind, view: TimelineView, begin: datetime) -> Mapping[str, Any]:
    """One kind on the chart: ``number``, ``bars``, and ``peak`` of one minute, or 0."""
    entries = [entry for entry in view.entries if entry.kind == kind]
    number = sum(entry.number for entry in entries)
    if kind not in ("refusal", "claim"):
        return {"number": number, "peak": 0, "bars": list(_spans(entries, begin, view.now))}
    minutes: dict[int, int] = {}
    tones: dict[int, str] = {}
    for entry in entries:
        minute = int(_second(entry.at, begin) // MINUTE)
        minutes[minute] = minutes.get(minute, 0) + entry.number
        tones[minute] = entry.status.value
    peak = max(minutes.values(), default=0)
    bars = [_column(minute, count / peak, tones[minute]) for minute, count in minutes.items()]
    return {"number": number, "peak": peak, "bars": sorted(bars, key=lambda bar: bar.x)}


def _spans(entries: Iterable[TimelineEntry], begin: datetime, now: datetime) -> Iterator[Bar]:
    """Yield a bar for each entry, from its begin to its end, or to the right edge if it lasts."""
    for entry in reversed(list(entries)):
        start = _second(entry.at, begin)
        width = max(THIN, _second(entry.until or now, begin) - start)
        yield Bar(x=min(start, WIDTH - THIN), width=width, tone=entry.status.value)


def _column(minute: int, part: float, tone: str) -> Bar:
    """The number of one minute. :param part: of the height of the largest column."""
    height = round(max(3.0, HEIGHT * part), 1)
    return Bar(
        x=minute * MINUTE + 6, y=HEIGHT - height, width=MINUTE - 12, height=height, tone=tone
    )


def _second(at: datetime, begin: datetime) -> float:
    return round(min(float(WIDTH), max(0.0, (at - begin).total_seconds())), 1)
