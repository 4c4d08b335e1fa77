"""The state as Prometheus metrics."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from rtagent.api import nodes
from rtagent.api.reply import Reply
from rtagent.model.claim import LIVE_STATES
from rtagent.model.health import Check, Status
from rtagent.model.node_state import NodeState
from rtagent.model.printable import printable
from rtagent.pci.allocations import device_allocations
from rtagent.state.compute_node import numa_topology

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"

#: The labels of a pool of devices.
_POOL = ("vendor_id", "product_id", "dev_type", "numa_node", "status")

_QUANTITIES = ("total", "reserved", "claimable", "used", "free")


_COUNTED = {
    "orphans": "Number of domains without a claim",
    "drifts": "Number of differences between domains and their claims",
    "absent": "Number of units that claims have and the host does not",
    "suspects": "Number of claims whose domain the agent cannot account for",
}


class HealthCollector(Collector):
    """The health of the parts. :param more: yields further gauges."""

    def __init__(
        self, checks: Sequence[Check], more: Callable[[], Iterable[Metric]] = tuple
    ) -> None:
        self._checks, self._more = checks, more

    def collect(self) -> Iterator[Metric]:
        statuses = {
            (check.part, status): float(check.status == status)
            for check in self._checks
            for status in Status
        }
        what = "1 for the present status of a part"
        yield gauge("rtagent_health", what, ("part", "status"), statuses)
        yield from self._more()


class StateCollector(HealthCollector):
    """Gauges of one state, and the health. Quantities are in the unit of the resource class; disk
    is in MB.
    """

    def __init__(
        self,
        state: NodeState,
        stale: bool,
        checks: Sequence[Check],
        more: Callable[[], Iterable[Metric]] = tuple,
    ) -> None:
        super().__init__(checks, more)
        self._state, self._stale = state, stale

    def collect(self) -> Iterator[Metric]:
        yield from self._node()
        yield self._claims()
        yield from super().collect()

    def _node(self) -> Iterator[Metric]:
        node = nodes.document(self._state)
        yield _gauge("rtagent_revision", "Number of changes of this node", node["revision"])
        yield _gauge("rtagent_stale", "1 while the database may be newer than reads", self._stale)
        for name in ("orphans", "drifts", "absent", "suspects"):
            yield _gauge(f"rtagent_{name}", _COUNTED[name], node[name])
        for quantity in _QUANTITIES:
            numbers = {
                (resource, inventory["unit"]): inventory[quantity]
                for resource, inventory in node["inventories"].items()
            }
            what = f"Quantity that is {quantity}, in the unit of the resource"
            yield gauge(f"rtagent_resource_{quantity}", what, ("resource", "unit"), numbers)

        by_status = node["pci_devices"]
        yield _by("status", "rtagent_pci_devices", "PCI devices by status", by_status)
        yield self._pools()
        yield from cells(self._state)

    def _pools(self) -> Metric:
        """Devices that differ in other properties only are added up."""
        numbers, allocations = Counter[tuple[object, ...]](), device_allocations(self._state)
        for address, recorded in self._state.devices.items():
            device, status = recorded.device, allocations.state(address).state
            pool = device.vendor_id, device.product_id, device.dev_type, device.numa_node
            numbers[*pool, status] += 1
        what = "PCI devices by pool and status"
        return gauge("rtagent_pci_pool_devices", what, _POOL, numbers)

    def _claims(self) -> Metric:
        numbers = Counter(claim.state for claim in self._state.claims.values())
        by_state = {state: numbers[state] for state in sorted(LIVE_STATES)}
        return _by("state", "rtagent_claims", "Live claims by state", by_state)


def reply(collector: Collector, registry: CollectorRegistry) -> Reply:
    """The metrics of a collector, then those of the process."""
    own = CollectorRegistry()
    own.register(collector)
    body = generate_latest(own) + generate_latest(registry)
    return Reply(body=body, media_type=MEDIA_TYPE)


def _gauge(name: str, help_: str, value: float) -> Metric:
    return GaugeMetricFamily(name, help_, value=float(value))


def _by(label: str, name: str, help_: str, numbers: Mapping[str, int]) -> Metric:
    return gauge(name, help_, (label,), {(value,): number for value, number in numbers.items()})


def gauge(
    name: str, help_: str, labels: Sequence[str], numbers: Mapping[tuple[Any, ...], float]
) -> Metric:
    """Return a gauge. :param numbers: by the values of the labels."""
    family = GaugeMetricFamily(name, help_, labels=labels)
    for values, number in numbers.items():
        family.add_metric(tuple(map(_label, values)), number)
    return family


def _label(value: object) -> str:
    return "" if value is None else printable(str(value))


#: Gauges of each cell: the name, the help text, and the value of a cell of `numa_topology`.
_CELLS = (
    (
        "rtagent_cell_cpus_shared",
        "Host CPUs of the cell that shared vCPUs may use",
        lambda cell: len(cell["cpuset"]),
    ),
    (
        "rtagent_cell_cpus_dedicated",
        "Host CPUs of the cell that guests can be pinned to",
        lambda cell: len(cell["pcpuset"]),
    ),
    (
        "rtagent_cell_cpus_pinned",
        "Host CPUs of the cell that guests are pinned to, with the idle thread siblings",
        lambda cell: len(cell["pinned_cpus"]),
    ),
    (
        "rtagent_cell_vcpus_used",
        "Shared vCPUs of guests in the cell",
        lambda cell: cell["cpu_usage"],
    ),
    ("rtagent_cell_memory_mb", "Memory of the cell in MB", lambda cell: cell["memory"]),
    (
        "rtagent_cell_memory_used_mb",
        "Memory of the cell that guests with NUMA cells use, in MB",
        lambda cell: cell["memory_usage"],
    ),
)
#: Gauges of each page size of a cell: the name, the help text, and the field.
_PAGES = (
    ("rtagent_cell_pages", "Pages of the cell", "total"),
    ("rtagent_cell_pages_used", "Pages of the cell that guests use", "used"),
    ("rtagent_cell_pages_reserved", "Pages of the cell that are reserved", "reserved"),
)


def cells(state: NodeState) -> Iterator[Metric]:
    """Yield CPUs, memory and pages of each cell; empty metrics for a host without cells."""
    shown: Sequence[Mapping[str, Any]] = (numa_topology(state) or {"cells": ()})["cells"]
    for name, what, value in _CELLS:
        yield gauge(name, what, ("cell",), {(cell["id"],): value(cell) for cell in shown})
    for name, what, field in _PAGES:
        numbers = {
            (cell["id"], pages["size_kb"]): pages[field]
            for cell in shown
            for pages in cell["mempages"]
        }
        yield gauge(name, what, ("cell", "size_kb"), numbers)
