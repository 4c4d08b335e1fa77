"""The NUMA cells of a state as Prometheus metrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from prometheus_client.metrics_core import GaugeMetricFamily, Metric

from rtagent.model.node_state import NodeState
from rtagent.state.compute_node import numa_topology

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
        gauge = GaugeMetricFamily(name, what, labels=("cell",))
        for cell in shown:
            gauge.add_metric((str(cell["id"]),), value(cell))
        yield gauge
    for name, what, field in _PAGES:
        gauge = GaugeMetricFamily(name, what, labels=("cell", "size_kb"))
        for cell in shown:
            for pages in cell["mempages"]:
                gauge.add_metric((str(cell["id"]), str(pages["size_kb"])), pages[field])
        yield gauge
