"""JSON views of the fleet's capacity: how many more guests of each flavor fit, and where."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec.structs import asdict
from prometheus_client.metrics_core import GaugeMetricFamily, Metric

from rtagent.errors import InvalidRequest
from rtagent.model.printable import printable
from rtagent.scheduler.fleet_counts import FleetCounts

FILTERS = frozenset({"flavor", "by"})
#: What the groups of hosts are.
GROUPS = ("host", "zone", "aggregate")
#: Seconds for which a reply waits until what has changed is counted.
PATIENCE = 2.0
METRICS_PATIENCE = 0.5


def capacity(
    counts: FleetCounts, query: Mapping[str, str], without_report: Mapping[str, str]
) -> Mapping[str, Any]:
    """``{"capacity": {"flavors": [flavor], "left_out": number, "without_report": {host: why}}}``,
    see `FleetFlavor`.

    ``flavor``: that one alone, also one beyond the limit of the catalogue; none if there is none of
    that name. ``by``: with the room by host, zone or aggregate.

    :param without_report: why no report of a host can be used, by host.
    :raises InvalidRequest: ``by`` is something else.
    """
    by = query.get("by")
    if by not in (None, *GROUPS):
        raise InvalidRequest.at("GET /capacity", "by", f"must be one of {', '.join(GROUPS)}")
    counted = counts.capacity(query.get("flavor"), by, PATIENCE)
    return {"capacity": {**asdict(counted), "without_report": without_report}}


def metrics(counts: FleetCounts) -> Iterator[Metric]:
    """Yield the room of each flavor, and the number of hosts with room, of those flavors that are
    counted on all hosts.
    """
    room = GaugeMetricFamily(
        "rtagent_scheduler_room", "Further guests of the flavor that fit", labels=("flavor",)
    )
    hosts = GaugeMetricFamily(
        "rtagent_scheduler_room_hosts",
        "Hosts that take at least one further guest of the flavor",
        labels=("flavor",),
    )
    for flavor in counts.capacity(patience=METRICS_PATIENCE).flavors:
        if flavor.summary is not None and not flavor.pending:
            labels = (printable(flavor.name),)
            room.add_metric(labels, flavor.summary.room)
            hosts.add_metric(labels, flavor.summary.hosts_with_room)
    yield room
    yield hosts
