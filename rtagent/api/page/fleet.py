"""The first page of a scheduler: the fleet as a heat map, and as a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from rtagent.api.page import quantities
from rtagent.api.page.fleet_hosts import (
    MEANINGS,
    MEASURES,
    SIGNS,
    STATUSES,
    STEPS,
    UP,
    FleetHost,
    aggregates,
    step,
    zones,
)
from rtagent.api.page.queries import PageQuery
from rtagent.api.page.rendering import Content
from rtagent.api.page.times import duration
from rtagent.model.base import Value

PATH = "/"
NAMES = frozenset(
    {"q", "status", "zone", "aggregate", "drift", "by", "group", "sort", "order", "from"}
)
#: Rows of the table on one page.
ROWS = 50
#: Up to so many hosts a tile has a name.
NAMED = 200
GROUPS: Mapping[str, str] = {"zone": "availability zone", "aggregate": "aggregate"}
ABSENT = "none"

_Key = Callable[[FleetHost], Any]
SORTS: Mapping[str, _Key] = {
    "name": lambda host: (host.name, host.nodename),
    "status": lambda host: STATUSES.index(host.status),
    "promised": lambda host: host.most,
    "instances": lambda host: host.instances,
    "drift": lambda host: host.differing,
    "vcpus": lambda host: host.free_vcpus,
    "pcpus": lambda host: host.free_pcpus,
    "memory": lambda host: host.free_memory_mb,
    "disk": lambda host: host.free_disk_mb,
    "age": lambda host: float("inf") if host.age is None else host.age,
}


class Tile(Value, frozen=True, kw_only=True):
    """A host on the heat map.

    :ivar style: its classes. :ivar about: its status and its instances, in words.
    :ivar label: all about it.
    """

    uuid: str
    name: str
    percent: str
    sign: str
    style: str
    about: str
    label: str


def fleet_page(hosts: Sequence[FleetHost], query: Mapping[str, str]) -> Content:
    """Return the fleet. :param hosts: by name."""
    asked = PageQuery(PATH, query, NAMES)
    choices = {
        "status": STATUSES,
        "zone": (*zones(hosts), ABSENT),
        "aggregate": (*aggregates(hosts), ABSENT),
    }
    filters = _filters(asked, choices)
    by = asked.choice("by", MEASURES, "most")
    group = asked.choice("group", GROUPS)
    sort, order = asked.choice("sort", SORTS, "name"), asked.choice("order", ("up", "down"), "up")
    found = [each for each in hosts if _matches(each, filters)]
    rows = sorted(found, key=SORTS[sort], reverse=order == "down")
    part = asked.part(len(rows), ROWS)
    start = part["start"]
    return Content(
        template="fleet.html",
        values={
            "total": len(hosts),
            "found": len(found),
            "counts": _counts(hosts),
            "drifting": sum(each.differing > 0 for each in hosts),
            "status_links": {each: asked.link(status=each, **_FIRST) for each in STATUSES},
            "drift_link": asked.link(drift="1", **_FIRST),
            "filters": filters,
            "filtered": any(filters.values()),
            "choices": choices,
            "by": by,
            "group": group,
            **_WORDS,
            "groups": _groups(found, group, by),
            "named": len(found) <= NAMED,
            "rows": [_row(each) for each in rows[start : start + ROWS]],
            "sort": sort,
            "order": order,
            "sorts": asked.sort_links(SORTS, sort, order),
            **part,
        },
    )


#: What is the same for every fleet.
_WORDS: Mapping[str, Any] = {
    "measures": MEASURES,
    "group_names": GROUPS,
    "meanings": MEANINGS,
    "signs": SIGNS,
    "steps": range(STEPS + 1),
}
#: A link that starts with the first row.
_FIRST: Mapping[str, Any] = {"from": None}


def bars(host: FleetHost) -> list[Mapping[str, Any]]:
    """Return the promised part of each resource."""
    return [
        {"name": MEASURES[name], "percent": value, "over": value > 100}
        for name, value in host.promised.items()
    ]


def _filters(asked: PageQuery, choices: Mapping[str, Sequence[str]]) -> Mapping[str, str]:
    return {
        "q": asked.text("q"),
        "drift": asked.choice("drift", ("1",)),
        **{name: asked.choice(name, values) for name, values in choices.items()},
    }


def _matches(host: FleetHost, filters: Mapping[str, str]) -> bool:
    wanted = filters["q"].casefold()
    if wanted and not any(wanted in each.casefold() for each in (host.name, host.nodename)):
        return wanted == host.uuid
    if filters["status"] not in ("", host.status):
        return False
    if filters["zone"] and filters["zone"] != (host.zone or ABSENT):
        return False
    if filters["aggregate"] and filters["aggregate"] not in (host.aggregates or (ABSENT,)):
        return False
    return not filters["drift"] or host.differing > 0


def _counts(hosts: Iterable[FleetHost]) -> Mapping[str, int]:
    counts = Counter(each.status for each in hosts)
    return {status: counts[status] for status in STATUSES if counts[status]}


def _groups(
    hosts: Iterable[FleetHost], group: str, by: str
) -> list[tuple[str, list[Tile], Mapping[str, int]]]:
    """Title, tiles and numbers by status of each group."""
    members: dict[str, list[FleetHost]] = {}
    for each in hosts:
        names: Iterable[str] = ("",)
        if group == "zone":
            names = (each.zone or "no zone",)
        elif group == "aggregate":
            names = each.aggregates or ("no aggregate",)
        for name in names:
            members.setdefault(name, []).append(each)
    return [
        (title, [_tile(each, by) for each in found], _counts(found))
        for title, found in sorted(members.items())
    ]


def _tile(host: FleetHost, by: str) -> Tile:
    heat = host.heat(by)
    promised = "has none of it" if heat is None else f"{heat:.0f} % promised"
    why = f" ({host.why})" if host.why else ""
    instances = "1 instance" if host.instances == 1 else f"{host.instances} instances"
    about = [f"{host.status}{why}"] if host.status != UP else []
    about += [instances, *([f"{host.differing} with drift"] if host.differing else [])]
    shade = "none" if heat is None else str(step(heat))
    classes = ("tile", f"heat-{shade}", host.status, "drifts" if host.differing else "")
    return Tile(
        uuid=host.uuid,
        name=host.name,
        percent="none" if heat is None else f"{heat:.0f} %",
        sign=SIGNS[host.status],
        style=" ".join(filter(None, classes)),
        about=", ".join(about),
        label=", ".join((f"{host.name}: {promised}", *about)),
    )


def _row(host: FleetHost) -> Mapping[str, Any]:
    return {
        "host": host,
        "memory": quantities.megabytes(host.free_memory_mb),
        "disk": quantities.megabytes(host.free_disk_mb),
        "age": "never" if host.age is None else duration(host.age),
        "most": host.most,
    }
