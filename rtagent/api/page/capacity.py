"""The capacity of the fleet: a bar for each flavor, and one flavor host by host."""

import math
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import urlencode

from markupsafe import Markup, escape

from rtagent.api.page.queries import PageQuery
from rtagent.api.page.rendering import Content
from rtagent.capacity.fleet import Group, Summary
from rtagent.errors import FlavorNotFound
from rtagent.model.base import Value
from rtagent.scheduler.errors import HostNotFound
from rtagent.scheduler.fleet_counts import FleetCapacity, FleetCounts, FleetFlavor
from rtagent.scheduler.host_state import HostState

PATH = "/page/capacity"
NAMES = frozenset({"q", "state", "by", "host", "sort", "order", "from"})
FLAVOR_NAMES = frozenset({"flavor", "q", "state", "sort", "order", "from"})
#: Rows of a table on one page, and parts of one bar: what has less room is one part together.
ROWS, PARTS = 50, 40
#: What the parts of a bar are. Of up to `PARTS` hosts each is one.
BY: Mapping[str, str] = {"host": "host", "zone": "availability zone", "aggregate": "aggregate"}

#: What ends the count, as colours and patterns show it: its name, and what it is.
KINDS: Mapping[str, str] = {
    "pcpu": "dedicated CPUs",
    "vcpu": "shared vCPUs",
    "memory": "memory",
    "pages": "pages of one size",
    "disk": "disk",
    "device": "devices and other resources",
    "filter": "a filter",
    "open": "nothing so far: more may fit",
}
_RESOURCES: Mapping[str, str] = {
    "PCPU": "pcpu",
    "VCPU": "vcpu",
    "MEMORY_MB": "memory",
    "DISK_GB": "disk",
}

#: What is to be said of a flavor: the name, and what it means.
SOME, NONE, COUNTING, NEVER, UNDECIDED = STATES = "room", "none", "counting", "never", "undecided"
MEANINGS: Mapping[str, str] = {
    SOME: "with room",
    NONE: "without room",
    COUNTING: "being counted",
    NEVER: "that never fit",
    UNDECIDED: "only Placement decides on",
}
REFUSED = "refused"
HOST_MEANINGS: Mapping[str, str] = {
    SOME: "with room",
    NONE: "full",
    REFUSED: "refused",
    NEVER: "too small even if empty",
}


class Part(Value, frozen=True, kw_only=True):
    """A part of a bar. :ivar kind: of `KINDS`, or `REFUSED`. :ivar scarce: what ends the count, on
    how many hosts. :ivar start: and :ivar width: in percent of the longest bar.
    """

    kind: str
    label: str
    scarce: str
    start: float
    width: float


class Row(Value, frozen=True, kw_only=True):
    """A flavor, with its bar. :ivar pending: the number of hosts that are not counted yet."""

    flavor: FleetFlavor
    pending: int
    state: str

    @property
    def refused(self) -> Sequence[int]:
        """The number of hosts that take no guest, and the number of guests they would add."""
        return _refused(self.flavor.summary)

    @property
    def link(self) -> Markup:
        """The page of the flavor. A name may be any text, "/" and ".." too."""
        return escape(f"{PATH}?{urlencode({'flavor': self.flavor.name})}")


_T = TypeVar("_T")
SORTS: Mapping[str, Callable[[Row], Any]] = {
    "name": lambda row: row.flavor.name,
    "room": lambda row: _of(row, "room"),
    "hosts": lambda row: _of(row, "hosts_with_room"),
    "largest": lambda row: _of(row, "largest"),
    "claims": lambda row: row.flavor.claims,
}
HOST_SORTS: Mapping[str, Callable[[Group], Any]] = {
    "name": lambda group: group.name,
    "room": lambda group: (group.summary.room, *_refused(group.summary)),
}


def _of(row: Row, name: str) -> tuple[bool, int]:
    """Return a number of a flavor, to sort by. Those without come last."""
    summary = row.flavor.summary
    return (True, 0) if summary is None else (False, getattr(summary, name))


def capacity_page(
    counts: FleetCounts,
    states: Sequence[HostState],
    without_report: Mapping[str, str],
    query: Mapping[str, str],
) -> Content:
    """Return the flavors of the catalogue.

    :param states: all hosts. :param without_report: those that are not counted, and why.
    :raises HostNotFound: ``host`` is the uuid of none.
    """
    asked = PageQuery(PATH, query, NAMES)
    filters = {"q": asked.text("q"), "state": asked.choice("state", STATES)}
    uuid, few = asked.text("host"), len(states) <= PARTS
    host = next((state for state in states if state.uuid == uuid), None)
    if uuid and host is None:
        raise HostNotFound(host=uuid)
    by = asked.choice("by", BY, "host" if few else "zone")
    by = "host" if host else "zone" if by == "host" and not few else by
    everything = counts.capacity(by=by, node_uuid=uuid or None)
    rows = [_row(flavor, 1 if host else len(states)) for flavor in everything.flavors]
    matching = [row for row in rows if _matches(row, filters)]
    table = _table(asked, matching, SORTS, "up", STATES)
    most = max((_whole(row.flavor.summary) for row in rows), default=0)
    bars = {row.flavor.name: list(_bar(row.flavor, most)) for row in table["rows"]}
    return Content(
        template="capacity.html",
        values={
            **_common(everything, rows, bars.values()),
            **table,
            "began": counts.began,
            "host": host,
            "hosts": len(states),
            "without_report": without_report,
            "total": len(rows),
            "counts": Counter(row.state for row in rows),
            "meanings": MEANINGS,
            "filters": filters,
            "given": {name: query.get(name, "") for name in ("host", "sort", "order")},
            "by": by,
            "choices": {name: BY[name] for name in BY if few or name != "host"},
            "bars": bars,
        },
    )


def flavor_page(
    counts: FleetCounts, states: Sequence[HostState], query: Mapping[str, str]
) -> Content:
    """Return one flavor, host by host.

    :raises FlavorNotFound: the catalogue has none of that name.
    """
    asked = PageQuery(PATH, query, FLAVOR_NAMES)
    name = query["flavor"]
    filters = {"q": asked.text("q"), "state": asked.choice("state", HOST_MEANINGS)}
    everything = counts.capacity(name, "host")
    row = next((_row(flavor, len(states)) for flavor in everything.flavors), None)
    if row is None:
        raise FlavorNotFound(flavor=name, command=f"the page {PATH}")
    groups, text = row.flavor.groups, filters["q"].casefold()
    matching = [
        group
        for group in groups
        if text in (group.name or "").casefold()
        and filters["state"] in ("", host_state_of(group.summary))
    ]
    bar = list(_bar(row.flavor, _whole(row.flavor.summary)))
    return Content(
        template="capacity_flavor.html",
        values={
            **_common(everything, [row], [bar]),
            **_table(asked, matching, HOST_SORTS, "down", HOST_MEANINGS),
            "row": row,
            "quoted": shlex.quote(name),
            "bar": bar,
            "hosts": len(states),
            "total": len(groups),
            "most": max((_whole(group.summary) for group in groups), default=0),
            "counts": Counter(host_state_of(group.summary) for group in groups),
            "meanings": HOST_MEANINGS,
            "state_of": host_state_of,
            "kind_of": kind_of,
            "filters": filters,
            "given": {name: query.get(name, "") for name in ("flavor", "state", "sort", "order")},
        },
    )


def _table(
    asked: PageQuery,
    rows: Sequence[_T],
    sorts: Mapping[str, Callable[[_T], Any]],
    order: str,
    states: Iterable[str],
) -> Mapping[str, Any]:
    """Return the part of a table that is shown, and its links.

    :param order: in which it is sorted by the room, if nothing is asked for.
    """
    first = {"from": None}
    return {
        **asked.table(rows, ROWS, sorts, "room", order),
        "state_links": {state: asked.link(state=state, **first) for state in states},
        "all_link": asked.link(state=None, q=None, **first),
    }


def kind_of(summary: Summary) -> str:
    """Return which of `KINDS` ends the count on most of the hosts."""
    if not summary.scarce:
        return "open"
    resource = summary.scarce[0].resource
    if resource.endswith(" pages"):
        return "pages"
    return _RESOURCES.get(resource, "filter" if resource.endswith("Filter") else "device")


def host_state_of(summary: Summary) -> str:
    """Return which of `HOST_MEANINGS` is to be said of one host."""
    if summary.refused:
        return REFUSED
    return SOME if summary.room else NEVER if summary.never else NONE


def _common(
    everything: FleetCapacity, rows: Sequence[Row], bars: Iterable[Sequence[Part]]
) -> Mapping[str, Any]:
    """What both pages show."""
    kinds = {part.kind for bar in bars for part in bar}
    summaries = [row.flavor.summary for row in rows if row.flavor.summary is not None]
    return {
        "left_out": everything.left_out,
        "not_judged": max((each.not_judged for each in summaries), default=0),
        "waiting": max((row.pending for row in rows), default=0),
        "kinds": {kind: label for kind, label in KINDS.items() if kind in kinds},
        "refusing": REFUSED in kinds,
    }


def _row(flavor: FleetFlavor, hosts: int) -> Row:
    """Return the row of a flavor. :param hosts: all that there are."""
    summary = flavor.summary
    pending = 0
    if summary is not None and not flavor.error:
        pending = max(flavor.pending, hosts - summary.hosts)
    if summary is None:
        state = UNDECIDED
    elif flavor.error:
        state = NEVER
    elif summary.room:
        state = SOME
    elif pending:
        state = COUNTING
    else:
        state = NEVER if summary.never else NONE
    return Row(flavor=flavor, pending=pending, state=state)


def _matches(row: Row, filters: Mapping[str, str]) -> bool:
    text = filters["q"].casefold()
    return text in row.flavor.name.casefold() and filters["state"] in ("", row.state)


def _bar(flavor: FleetFlavor, most: int) -> Iterator[Part]:
    """Yield the parts of a bar: those with the same scarce resource side by side, and last the room
    on hosts that take no guests.

    The length grows with the logarithm, because some flavors have a thousand times the room of
    others. Each part has its share of it.

    :param most: what the longest bar stands for.
    """
    if not (whole := _whole(flavor.summary)):
        return
    parts = sorted(_parts(flavor.groups), key=lambda part: (list(KINDS).index(part[0]), -part[2]))
    if added := _refused(flavor.summary)[1]:
        parts.append((REFUSED, "hosts that take no guests", added, ""))
    length = 100 * math.log1p(whole) / math.log1p(most)
    total, start = sum(room for _, _, room, _ in parts), 0.0
    for kind, name, room, scarce in parts:
        width = length * room / total
        yield Part(
            kind=kind,
            label=f"{name}: {room}",
            scarce=scarce,
            start=round(start, 2),
            width=round(width, 2),
        )
        start += width


def _parts(groups: Iterable[Group]) -> Iterator[tuple[str, str, int, str]]:
    """Yield what ends the count, the name, the room and what is scarce of each group with room."""
    taking = sorted(
        (group for group in groups if group.summary.room), key=lambda group: -group.summary.room
    )
    listed = taking[: PARTS - 1] if len(taking) > PARTS else taking
    for group in listed:
        summary = group.summary
        scarce = (f"{part.resource} on {part.hosts}" for part in summary.scarce)
        yield kind_of(summary), group.name or "none", summary.room, ", ".join(scarce)
    if rest := taking[len(listed) :]:
        kind, _ = Counter(kind_of(group.summary) for group in rest).most_common(1)[0]
        yield kind, f"{len(rest)} others", sum(group.summary.room for group in rest), ""


def _whole(summary: Summary | None) -> int:
    """Return the room, with that on hosts that take no guests."""
    return 0 if summary is None else summary.room + _refused(summary)[1]


def _refused(summary: Summary | None) -> tuple[int, int]:
    refused = () if summary is None else summary.refused
    return sum(each.hosts for each in refused), sum(each.fits for each in refused)
