"""rtagent pci: list and show PCI devices, quarantine and clear them."""

import argparse
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from rtagent.cmd.base import Action, List, Row, Rows, Show, columns, row, rows
from rtagent.cmd.client import Client
from rtagent.cmd.node import only_node
from rtagent.cmd.output import KeyValues, Lines, OrEmpty
from rtagent.errors import NodeNotFound, PciDeviceNotFound
from rtagent.model.device import DEV_TYPES
from rtagent.pci.device_users import STATES

_Device = Mapping[str, Any]

_columns = partial(columns, default=OrEmpty, tags=KeyValues, others=Lines)
_LIST = _columns(
    *("address", "vendor_id", "product_id", "dev_type", "numa_node", "status", "owner_id", "name"),
    "reason",
)
_LONG_LIST = {
    **_LIST,
    **_columns("parent_addr", "iommu_group", "net_name", "tags", "claim_uuid", "node"),
}
_SHOW = _columns(
    *("node", "address", "vendor_id", "product_id", "dev_type", "numa_node", "parent_addr"),
    *("iommu_group", "net_name", "resource_class", "tags", "status", "reason", "quarantine"),
    *("owner_id", "name", "claim_uuid", "others"),
)


class PciList(List):
    """List the PCI devices that are in the inventory or in use, with status and owner.

    A device that is "unclaimable" or "unavailable" has no owner and cannot be claimed; "reason"
    says why. A "removed" device has left the host or the specifications.
    """

    nouns = "devices"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--status", help=f"Only this status: {', '.join(STATES)}.")
        parser.add_argument("--type", help=f"Only this type: {', '.join(DEV_TYPES)}.")
        parser.add_argument("--instance", metavar="UUID", help="Only devices of this owner.")
        parser.add_argument("--node", metavar="NAME", help="Only devices of this hypervisor.")
        parser.add_argument("--long", action="store_true", help="Show more columns.")

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        devices = _devices(
            self.app.client,
            status=parsed_args.status,
            dev_type=parsed_args.type,
            instance=parsed_args.instance,
            node=parsed_args.node,
        )
        return rows(_LONG_LIST if parsed_args.long else _LIST, devices)


class PciShow(Show):
    """Show all fields of a PCI device."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        _with_address(parser)
        parser.add_argument(
            "--node", metavar="NAME", help="The hypervisor of the device. Default: the only one."
        )

    def take_action(self, parsed_args: argparse.Namespace) -> Row:
        return row(_SHOW, self._device(parsed_args.address, parsed_args.node))

    def _device(self, address: str, node: str | None) -> _Device:
        """Read the device. Several nodes of a database may have one at the same address."""
        found = _devices(self.app.client, address=address, node=node)
        if not found:
            raise PciDeviceNotFound(address=address)
        if len(found) > 1:
            served = ", ".join(device["node"] for device in found)
            raise NodeNotFound(node="(unnamed)", served=served)
        return found[0]


class PciQuarantine(Action):
    """Quarantine a PCI device: no new claim gets it.

    A claim to which the device is assigned keeps it.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        _with_address(parser)
        parser.add_argument(
            "--reason", required=True, help="The reason, which `pci list` and refusals show."
        )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        self.app.client.call("quarantine_pci_device", parsed_args.address, parsed_args.reason)
        self.app.LOG.info("device %s is quarantined", parsed_args.address)


class PciClear(Action):
    """End the quarantine of a PCI device.

    An operator quarantined it, or it is for one-time use and was used: wipe it first.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        _with_address(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        self.app.client.call("clear_pci_device", parsed_args.address)
        self.app.LOG.info("device %s is no longer quarantined", parsed_args.address)


def _devices(client: Client, node: str | None, **filters: str | None) -> Sequence[_Device]:
    """Read devices. :raises NodeNotFound: there is no such node."""
    if node is not None:
        node = only_node(client.read("nodes")["nodes"], node)["hypervisor_hostname"]
    devices: Sequence[_Device] = client.read("pci", node=node, **filters)["pci"]
    return devices


def _with_address(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "address", metavar="ADDRESS", help="The address as in `pci list`: dddd:bb:ss.f."
    )
