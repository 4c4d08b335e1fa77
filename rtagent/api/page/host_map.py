"""The host map: what the host has, and who has which part of it.

It is made of the documents of the read API, so it shows what they show.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol

from markupsafe import Markup

from rtagent.api import nodes, numa, pci, resources
from rtagent.api.page.capacity import capacities
from rtagent.api.page.cells import SIGNS, WORDS, Socket, sockets
from rtagent.api.page.devices import Tree, host_units, trees
from rtagent.api.page.owners import Owner
from rtagent.api.page.rendering import Content
from rtagent.model.device import NO_ROOT_PORTS, RootPorts
from rtagent.model.node_state import NodeState

#: Up to so many CPUs are drawn large, and up to so many at the usual size.
FEW, USUAL = 16, 160


class Rows(Protocol):
    """The owners, as `OwnerRows` returns them."""

    def of(self, state: NodeState) -> tuple[Mapping[str, Owner], Sequence[Markup]]: ...


def host_map(
    state: NodeState,
    rows: Rows,
    notes: Mapping[int, Sequence[str]] | None = None,
    ports: RootPorts = NO_ROOT_PORTS,
) -> Content:
    """Return the host map.

    :param notes: sentences to show in cells. :param ports: the root ports of the devices.
    """
    node, (found, table) = nodes.document(state), rows.of(state)
    placed = sockets(numa.document(state)["cells"], found)
    units = resources.resources(state)["resources"]
    devices = trees(pci.devices(state, {}, ports)["pci"], units, found, ports)
    cells: set[int | None] = {cell.id for socket in placed for cell in socket.cells}
    return Content(
        template="host_map.html",
        values={
            "node": node,
            "capacities": tuple(capacities(node["inventories"])),
            "sockets": placed,
            "density": _density(placed),
            "stacked": any(len(socket.cells) > 1 for socket in placed),
            "legend": _legend(placed),
            "trees": {name: tree for name, tree in devices.items() if name in cells},
            "elsewhere": _elsewhere(devices, cells),
            "host_units": host_units(units, found),
            "owners": table,
            "notes": notes or {},
        },
    )


def _density(placed: Iterable[Socket]) -> str:
    cpus = sum(cell.cpus for socket in placed for cell in socket.cells)
    return "sparse" if cpus <= FEW else "usual" if cpus <= USUAL else "dense"


def _legend(placed: Iterable[Socket]) -> tuple[Mapping[str, Any], ...]:
    """The uses that occur on the map, in a fixed order."""
    threads = (
        thread
        for socket in placed
        for cell in socket.cells
        for core in cell.cores
        for thread in core.threads
    )
    occurring = {thread.use for thread in threads}
    return tuple(
        {"use": use, "word": WORDS[use], "sign": SIGNS[use]}
        for use in numa.USES
        if use in occurring
    )


def _elsewhere(
    devices: Mapping[int | None, Tree], cells: Collection[int | None]
) -> tuple[Any, ...]:
    """The devices that are in no cell: the title and the tree of each group."""
    return tuple(
        ("Devices without a known NUMA node" if name is None else f"NUMA node {name}", tree)
        for name, tree in devices.items()
        if name not in cells
    )
