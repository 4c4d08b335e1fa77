"""rtagent host list and show: the hosts as the scheduler of this machine sees them."""

import argparse
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from rtagent.cmd.base import List, Row, Rows, Show, columns, row, rows
from rtagent.cmd.output import CellLines, Column, KeyValues, Lines, OrEmpty, PciPools


class MetricLines(Column[Sequence[Mapping[str, Any]]]):
    """A line for each measurement."""

    def lines(self) -> Iterable[str]:
        return [f"{metric['name']}={metric['value']}" for metric in self._value]


class Triples(Column[Sequence[Sequence[str]]]):
    """A line for each kind of guest."""

    def lines(self) -> Iterable[str]:
        return [" ".join(triple) for triple in self._value]


_columns = partial(
    columns,
    default=OrEmpty,
    aggregates=Lines,
    instances=Lines,
    numa_topology=CellLines,
    pci_stats=PciPools,
    cpu_info=KeyValues,
    stats=KeyValues,
    metrics=MetricLines,
    supported_instances=Triples,
)
_LIST = _columns(
    *("host", "nodename", "state", "vcpus_used", "vcpus_total", "free_ram_mb"),
    *("total_usable_ram_mb", "free_disk_mb", "num_instances", "availability_zone", "aggregates"),
)
_LONG_LIST = {
    **_LIST,
    **_columns("uuid", "num_io_ops", "failed_builds", "hypervisor_type", "hypervisor_version"),
    **_columns("age", "epoch", "revision"),
}
_SHOW = _columns(
    *("host", "nodename", "uuid", "host_ip", "page_url", "state", "why_not", "disabled_reason"),
    *("drain_reason", "age", "vcpus_used", "vcpus_total", "cpu_allocation_ratio", "free_ram_mb"),
    *("total_usable_ram_mb", "ram_allocation_ratio", "free_disk_mb", "total_usable_disk_gb"),
    *("disk_allocation_ratio", "num_instances", "instances", "num_io_ops", "failed_builds"),
    *("availability_zone", "aggregates", "numa_topology", "pci_stats", "hypervisor_type"),
    *("hypervisor_version", "cpu_info", "supported_instances", "stats", "metrics", "epoch"),
    "revision",
)


class HostList(List):
    """List the hosts that the scheduler of this machine knows.

    The state is "up", or why the host is not selected: "down" (no message of its agent, or forced
    down), "disabled", "draining", or "not granting" (its agent grants no claims).
    """

    nouns = "hosts"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--long", action="store_true", help="Show more columns.")

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        hosts = self.app.client.read_scheduler("hosts")["hosts"]
        return rows(_LONG_LIST if parsed_args.long else _LIST, map(_with_state, hosts))


class HostShow(Show):
    """Show a host as the scheduler of this machine sees it."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "host", help="The service host, the hypervisor_hostname or the uuid of the node."
        )

    def take_action(self, parsed_args: argparse.Namespace) -> Row:
        host = self.app.client.read_scheduler("hosts", parsed_args.host)["host"]
        return row(_SHOW, _with_state(host))


def _with_state(host: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**host, "state": _state(host)}


def _state(host: Mapping[str, Any]) -> str:
    if not host["alive"]:
        return "down"
    if host["disabled"]:
        return "disabled"
    if host["draining"]:
        return "draining"
    return "up" if host["up"] else "not granting"
