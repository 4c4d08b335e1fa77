"""rtagent node: the hypervisor and its amounts."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cliff.columns import FormattableColumn

from rtagent.cmd.columns import Nothing, Pairs
from rtagent.cmd.devices import Numbers, Pools
from rtagent.cmd.listing import List, Show
from rtagent.errors import NodeNotFound
from rtagent.model.base import MB_IN_GB

LIST_COLUMNS = (
    "hypervisor_hostname",
    "host",
    "vcpus_used",
    "vcpus",
    "memory_mb_used",
    "memory_mb",
    "local_gb_used",
    "local_gb",
    "claims",
    "orphans",
    "drifts",
    "absent",
    "suspects",
)

FACTS = (
    "uuid",
    "host",
    "hypervisor_hostname",
    "hypervisor_type",
    "hypervisor_version",
    "host_ip",
)
COUNTS = (
    "pci_devices",
    "pci_device_pools",
    "disk_available_least",
    "running_vms",
    "current_workload",
    "claims",
    "orphans",
    "drifts",
    "absent",
    "suspects",
    "stats",
    "revision",
    "epoch",
)

#: What a person reads otherwise than as one word.
_COLUMNS: Mapping[str, type[FormattableColumn[Any]]] = {
    "pci_devices": Numbers,
    "pci_device_pools": Pools,
    "stats": Pairs,
}

_AMOUNTS = ("total", "reserved", "claimable", "used", "free")


class Amounts(FormattableColumn[Mapping[str, Mapping[str, Any]]]):
    """A line for each resource. Disk is in GB to a person: total, claimable and free rounded down,
    what is taken rounded up."""

    def human_readable(self) -> str:
        rows: list[tuple[str, ...]] = [("", "ratio", *_AMOUNTS)]
        for resource, amounts in self._value.items():
            ratio = f"{amounts['allocation_ratio']:g}"
            rows.append((resource, ratio, *(_shown(resource, amounts, a) for a in _AMOUNTS)))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join(_aligned(row, widths) for row in rows)


def _shown(resource: str, amounts: Mapping[str, Any], name: str) -> str:
    amount = amounts[name]
    if resource != "DISK_GB":
        return str(amount)
    taken = name in ("reserved", "used")
    return str(-(-amount // MB_IN_GB) if taken else amount // MB_IN_GB)


def _aligned(row: Sequence[str], widths: Sequence[int]) -> str:
    first, *others = zip(row, widths, strict=True)
    cells = (text.rjust(width) for text, width in others)
    return "  ".join((first[0].ljust(first[1]), *cells))


def _count(node: Mapping[str, Any], name: str) -> FormattableColumn[Any]:
    return _COLUMNS.get(name, Nothing)(node[name])


class NodeList(List):
    """List the nodes: one here, all of the database's with --offline"""

    nouns = "nodes"

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        nodes = self.world.read("nodes")["nodes"]
        return LIST_COLUMNS, [tuple(node.get(name) for name in LIST_COLUMNS) for node in nodes]


class NodeShow(Show):
    """Show a node: what it has, what is reserved, used and free

    "used" is what claims and foreign domains hold; "claimable" is (total - reserved) * ratio.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "node", nargs="?", help="Its uuid or hypervisor_hostname. Default: the one there is."
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Sequence[Any]]:
        node = self._node(parsed_args.node)
        amounts = Amounts(node["inventories"])
        return (
            (*FACTS, "inventories", *COUNTS),
            (*map(node.get, FACTS), amounts, *(_count(node, name) for name in COUNTS)),
        )

    def _node(self, name: str | None) -> Mapping[str, Any]:
        if name is not None:
            found: Mapping[str, Any] = self.world.read("nodes", name)["node"]
            return found
        nodes = self.world.read("nodes")["nodes"]
        if len(nodes) != 1:
            served = ", ".join(node["hypervisor_hostname"] for node in nodes) or "none"
            raise NodeNotFound(node="(unnamed)", served=served)
        return nodes[0]
