"""The state, as Prometheus text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from rtagent.api import nodes
from rtagent.model.claim import LIVE_STATES
from rtagent.model.health import Check, Status
from rtagent.model.host import HostState

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"

#: What tells pools of devices apart here.
_POOL = ("vendor_id", "product_id", "dev_type", "numa_node")

_AMOUNTS = ("total", "reserved", "claimable", "used", "free")


class StateCollector(Collector):
    """Gauges of one state; amounts in the resource class's unit, disk in MB."""

    def __init__(self, state: HostState, stale: bool, checks: Sequence[Check]) -> None:
        self._state, self._stale, self._checks = state, stale, checks

    def collect(self) -> Iterator[Metric]:
        yield from self._node()
        yield self._claims()
        yield self._health()

    def _node(self) -> Iterator[Metric]:
        node = nodes.node(self._state)
        yield _gauge("rtagent_revision", "Changes that this node has seen", node["revision"])
        yield _gauge("rtagent_stale", "1 while reads may be behind the database", self._stale)
        for name in ("orphans", "drifts", "absent", "suspects"):
            yield _gauge(f"rtagent_{name}", f"How many {name} there are", node[name])
        for amount in _AMOUNTS:
            gauge = GaugeMetricFamily(
                f"rtagent_resource_{amount}",
                f"What is {amount}, in units of the resource",
                labels=("resource", "unit"),
            )
            for resource, amounts in node["inventories"].items():
                gauge.add_metric((resource, amounts["unit"]), amounts[amount])
            yield gauge

        by_status = node["pci_devices"]
        yield _by("status", "rtagent_pci_devices", "PCI devices by status", by_status)
        yield self._pools(node["pci_device_pools"])

    def _pools(self, pools: Sequence[Mapping[str, Any]]) -> Metric:
        """Added up: labels tell less of a pool than its tags do."""
        numbers = Counter[tuple[str, ...]]()
        for pool in pools:
            said = {**pool["tags"], **pool}
            numbers[tuple(_word(said[name]) for name in _POOL)] += pool["count"]
        gauge = GaugeMetricFamily(
            "rtagent_pci_pool_devices", "PCI devices to be had, by what they are", labels=_POOL
        )
        for labels, number in numbers.items():
            gauge.add_metric(labels, number)
        return gauge

    def _claims(self) -> Metric:
        numbers = Counter(claim.state for claim in self._state.claims.values())
        by_state = {state: numbers[state] for state in sorted(LIVE_STATES)}
        return _by("state", "rtagent_claims", "Live claims by state", by_state)

    def _health(self) -> Metric:
        gauge = GaugeMetricFamily(
            "rtagent_health", "1 for the status that a part has", labels=("part", "status")
        )
        for check in self._checks:
            for status in Status:
                gauge.add_metric((check.part, status), float(check.status == status))
        return gauge


def text(
    state: HostState, stale: bool, checks: Sequence[Check], registry: CollectorRegistry
) -> bytes:
    """The state's gauges, then the process's own metrics."""
    own = CollectorRegistry()
    own.register(StateCollector(state, stale, checks))
    return generate_latest(own) + generate_latest(registry)


def _gauge(name: str, help_: str, value: float) -> Metric:
    return GaugeMetricFamily(name, help_, value=float(value))


def _by(label: str, name: str, help_: str, numbers: Mapping[str, int]) -> Metric:
    gauge = GaugeMetricFamily(name, help_, labels=(label,))
    for word, number in numbers.items():
        gauge.add_metric((word,), number)
    return gauge


def _word(value: object) -> str:
    return "" if value is None else str(value)
