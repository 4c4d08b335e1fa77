"""Whether a host is beyond a bound of `rtagent.model.host_report`. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from rtagent.model.base import Value
from rtagent.model.host_report import (
    MAX_CELLS,
    MAX_CPU_INFO,
    MAX_CPUS,
    MAX_DEVICES,
    MAX_INSTANCES,
    MAX_PAGE_SIZES,
    MAX_POOLS,
    MAX_RESOURCES,
    HostDescription,
)
from rtagent.model.topology import Cell


class _Bound(Value, frozen=True, kw_only=True):
    """:ivar path: in a description. :ivar what: is counted."""

    path: str
    what: str
    most: int
    count: Callable[[HostDescription], int]


def _in_cells(count: Callable[[Cell], int]) -> Callable[[HostDescription], int]:
    return lambda description: sum(map(count, description.topology.cells))


_BOUNDS = (
    _Bound(
        path=".topology.cpus",
        what="host CPUs",
        most=MAX_CPUS,
        count=lambda description: len(description.topology.cpus),
    ),
    _Bound(
        path=".topology.cells",
        what="NUMA cells",
        most=MAX_CELLS,
        count=lambda description: len(description.topology.cells),
    ),
    _Bound(
        path=".topology.cells",
        what="host CPUs in NUMA cells",
        most=MAX_CPUS,
        count=_in_cells(lambda cell: len(cell.cpus) + len(cell.offline)),
    ),
    _Bound(
        path=".topology.cells",
        what="cores and threads in NUMA cells",
        most=2 * MAX_CPUS,
        count=_in_cells(lambda cell: len(cell.siblings) + sum(map(len, cell.siblings))),
    ),
    _Bound(
        path=".topology.cells",
        what="sizes of pages in a NUMA cell",
        most=MAX_PAGE_SIZES,
        count=lambda description: max(
            (len(cell.pages) for cell in description.topology.cells), default=0
        ),
    ),
    _Bound(
        path=".topology.cpu_info",
        what="bytes",
        most=MAX_CPU_INFO,
        count=lambda description: len(msgspec.json.encode(description.topology.cpu_info)),
    ),
    _Bound(
        path=".devices",
        what="PCI devices",
        most=MAX_DEVICES,
        count=lambda description: len(description.devices),
    ),
    _Bound(
        path=".resource_inventories",
        what="pools of resources",
        most=MAX_POOLS,
        count=lambda description: len(description.resource_inventories),
    ),
    _Bound(
        path=".resource_inventories",
        what="assigned resources",
        most=MAX_RESOURCES,
        count=lambda description: sum(
            len(pool.identifiers) + len(pool.namespaces)
            for pool in description.resource_inventories
        ),
    ),
)


def beyond_bounds(description: HostDescription) -> Iterator[tuple[str, str]]:
    """Yield each bound that a host is beyond: the path in its description, and a sentence."""
    for bound in _BOUNDS:
        number = bound.count(description)
        if number > bound.most:
            yield bound.path, _sentence(number, bound.what, bound.most)


def beyond_instances(number: int) -> Iterator[str]:
    """Yield a sentence if a host has too many instances."""
    if number > MAX_INSTANCES:
        yield _sentence(number, "instances", MAX_INSTANCES)


def _sentence(number: int, what: str, most: int) -> str:
    return f"has {number} {what}, and a host has at most {most}"
