"""rtagent pci: devices of the host, who has them, and which are kept back."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rtagent.cmd.columns import Lines, Nothing, Pairs
from rtagent.cmd.listing import Act, List, Show
from rtagent.errors import NodeNotFound, PciDeviceNotFound
from rtagent.model.device import DEV_TYPES
from rtagent.pci.states import STATES

SHORT = (
    "address",
    "vendor_id",
    "product_id",
    "dev_type",
    "numa_node",
    "status",
    "owner_id",
    "name",
    "reason",
)
LONG = (*SHORT, "parent_addr", "iommu_group", "net_name", "tags", "claim_uuid", "node")
WHOLE = (
    "node",
    "address",
    "vendor_id",
    "product_id",
    "dev_type",
    "numa_node",
    "parent_addr",
    "iommu_group",
    "net_name",
    "resource_class",
    "tags",
    "status",
    "reason",
    "quarantine",
    "owner_id",
    "name",
    "claim_uuid",
    "others",
)


def _cell(device: Mapping[str, Any], name: str) -> Any:
    value = device[name]
    if name == "tags":
        return Pairs(value)
    return Lines(value) if name == "others" else Nothing(value)


class PciList(List):
    """List the PCI devices that are offered, held or kept back, with who has each

    "unclaimable" and "unavailable" ones are nobody's and not to be had; "reason" says why. A
    "removed" one has left the host, or the specifications.
    """

    nouns = "devices"

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--status", help=f"Only those: {', '.join(STATES)}.")
        parser.add_argument("--type", help=f"Only those: {', '.join(DEV_TYPES)}.")
        parser.add_argument("--instance", metavar="UUID", help="Only this owner's.")
        parser.add_argument("--node", metavar="NAME", help="Only those of this hypervisor.")
        parser.add_argument("--long", action="store_true", help="More columns.")
        return parser

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        devices = self.world.read(
            "pci",
            status=parsed_args.status,
            dev_type=parsed_args.type,
            instance=parsed_args.instance,
            node=parsed_args.node,
        )["pci"]
        columns = LONG if parsed_args.long else SHORT
        return columns, [tuple(_cell(device, name) for name in columns) for device in devices]


class PciShow(Show):
    """Show a PCI device, whole"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        _add_address(parser)
        parser.add_argument(
            "--node", metavar="NAME", help="Its hypervisor. Default: the one there is."
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Sequence[Any]]:
        device = self._device(parsed_args.address, parsed_args.node)
        return WHOLE, tuple(_cell(device, name) for name in WHOLE)

    def _device(self, address: str, node: str | None) -> Mapping[str, Any]:
        """A database may have several nodes with a device there."""
        found: Sequence[Mapping[str, Any]]
        found = self.world.read("pci", address=address, node=node)["pci"]
        if not found:
            raise PciDeviceNotFound(address=address)
        if len(found) > 1:
            served = ", ".join(device["node"] for device in found)
            raise NodeNotFound(node="(unnamed)", served=served)
        return found[0]


class PciQuarantine(Act):
    """Keep a PCI device back: nobody gets it from now on

    Who holds it keeps it.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        _add_address(parser)
        parser.add_argument("--reason", required=True, help="Why, for whoever asks for it.")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        address = parsed_args.address
        self.world.call("quarantine_pci_device", address, parsed_args.reason)
        self.app.LOG.info("device %s is kept back", address)


class PciClear(Act):
    """Give a PCI device free that was kept back

    By an operator, or because it is for one use and was used: wipe it first.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        _add_address(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        self.world.call("clear_pci_device", parsed_args.address)
        self.app.LOG.info("device %s is kept back no longer", parsed_args.address)


def _add_address(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("address", metavar="ADDRESS", help="As `pci list` shows it: dddd:bb:ss.f.")
