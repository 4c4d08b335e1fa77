"""JSON views of a host's capacity: how many more guests of each flavor fit; what is stranded."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from prometheus_client.metrics_core import Metric

from rtagent.api.metrics import gauge
from rtagent.capacity.catalogue import CatalogueFlavor
from rtagent.capacity.count import Count, Counts
from rtagent.capacity.room import Room
from rtagent.claims import draining_error
from rtagent.errors import NodeNotReady, RtAgentError
from rtagent.model.base import Value
from rtagent.model.node_state import NodeState
from rtagent.numa.host_cells import CellCapacity

FILTERS = frozenset({"flavor"})


class Blocked(Value, frozen=True, kw_only=True):
    """Why claims are not granted at present, whatever is free.

    :ivar every: any claim; None: they are granted. :ivar devices: those of devices.
    """

    every: str | None = None
    devices: str | None = None

    def of(self, flavor: CatalogueFlavor, state: NodeState) -> str | None:
        """Return why claims of a flavor are not granted; None: they are."""
        return self.every or (self.devices if flavor.takes_devices(state) else None)


def blocked(
    state: NodeState, creation_error: RtAgentError | None, devices_error: RtAgentError | None
) -> Blocked:
    """Return what keeps claims from being granted.

    :param creation_error: the error of every call that creates a claim, and
    :param devices_error: of those whose claims have devices; None: there is none.
    """
    error = draining_error(state) or creation_error
    if error is None and state.topology is None:
        error = NodeNotReady("the topology of this host is not known yet")
    return Blocked(
        every=error.message if error else None,
        devices=devices_error.message if devices_error else None,
    )


def document(
    state: NodeState, counts: Counts, blocked: Blocked, only: str | None = None
) -> dict[str, Any]:
    """Return the capacity of a host.

    :param only: the name of a flavor: only that one, cell by cell; none if it is not in the
        catalogue.

    ``blocked``: why no claim is granted at present, whatever is free, or null: ``room`` is 0 then.
    ``amounts_judged``: false: Placement decides on vCPUs, memory and disk, which are counted here
    with the ratios of the node. ``left_out``: flavors beyond the limit.
    """
    host = {
        "uuid": state.node.uuid,
        "hypervisor_hostname": state.node.hypervisor_hostname,
        "revision": state.revision,
        "blocked": blocked.every,
        "amounts_judged": state.policy.judges_amounts,
    }
    if state.topology is None:
        return {**host, "left_out": 0, "flavors": [], "stranded": []}
    count = counts.of(state)
    if only is None:
        flavors: Sequence[CatalogueFlavor] = count.catalogue.flavors
        rows = [_row(flavor, count.room(flavor), blocked.of(flavor, state)) for flavor in flavors]
    else:
        named = count.flavor(only)
        rows = [] if named is None else [_described(count, named, blocked.of(named, state))]
    return {
        **host,
        "left_out": count.catalogue.left_out,
        "flavors": rows,
        "stranded": count.stranded,
    }


def metrics(capacity: Callable[[], Mapping[str, Any]]) -> Iterator[Metric]:
    """Yield the room of each flavor of the catalogue, and what is stranded by resource.

    :param capacity: returns the document.
    """
    host = capacity()
    room = {(flavor["name"],): flavor["room"] for flavor in host["flavors"]}
    what = "Further guests of the flavor that the host takes"
    yield gauge("rtagent_room", what, ("flavor",), room)
    stranded = Counter({("PCPU", "CPUs"): 0, ("MEMORY_MB", "MB"): 0})
    for part in host["stranded"]:
        stranded[part.resource, part.unit] += part.number
    what = "Quantity that is free and that no flavor can use"
    yield gauge("rtagent_stranded", what, ("resource", "unit"), stranded)


def _row(flavor: CatalogueFlavor, room: Room, blocked: str | None) -> dict[str, Any]:
    """``fits``: how many fit; ``room``: how many of these are granted now: 0 if ``blocked`` is not
    null; ``at_least``: both may be higher; ``scarce``: the first reason why the next one is
    refused, or null.
    """
    return {
        "name": flavor.name,
        "room": 0 if blocked else room.number,
        "fits": room.number,
        "blocked": blocked,
        "at_least": room.more,
        "scarce": room.reasons[0].as_dict() if room.reasons else None,
        "never": room.never,
        "claims": flavor.claims,
        "in_file": flavor.in_file,
        "variant": flavor.variant,
        "flavor": flavor.build.instance.flavor,
    }


def _described(count: Count, flavor: CatalogueFlavor, blocked: str | None) -> dict[str, Any]:
    """Return the row of one flavor, with its room by cells, and what is left then."""
    room = count.room(flavor)
    left = room.left
    return {
        **_row(flavor, room, blocked),
        "reasons": [reason.as_dict() for reason in room.reasons],
        "places": [
            {"cells": cells, "builds": number} for cells, number in sorted(room.places.items())
        ],
        "cells": list(map(_left, room.cells)),
        "left": None
        if left is None
        else {
            "vcpus": left.free_vcpus,
            "pcpus": left.free_pcpus,
            "memory_mb": left.free_memory_mb,
            "disk_mb": left.free_disk_mb if left.disk_checked else None,
        },
    }


def _left(cell: CellCapacity) -> dict[str, Any]:
    """Return what a cell has left. ``pages``: free ones, by size in KiB."""
    return {
        "id": cell.id,
        "pcpus": cell.free_pcpus,
        "memory_mb": cell.small_pages_mb[1],
        "pages": [{"size_kb": size, "free": free} for size, (_, free) in cell.pages.items()],
    }
