"""rtagent node: show the capacity and usage of a node, remove its record, accept a restored one.
rtagent service: list the services, disable and enable this host for scheduling.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from rtagent.cmd.base import Action, List, Row, Rows, Show, columns, row, rows, with_dry_run
from rtagent.cmd.client import Client
from rtagent.cmd.output import Column, Counts, KeyValues, OrEmpty, PciPools, YesNo, timestamp
from rtagent.errors import (
    ClaimConflict,
    IdentityError,
    NodeNotFound,
    NotFound,
    StoreUnavailable,
)
from rtagent.model.node import NodeRecord
from rtagent.model.units import MB_IN_GB, round_up
from rtagent.ports import Service

_COLUMNS = columns(
    *("host", "binary", "state", "last_seen_up", "disabled", "disabled_reason", "forced_down"),
    "version",
    last_seen_up=timestamp,
    disabled=YesNo,
    disabled_reason=OrEmpty,
    forced_down=YesNo,
)


class ServiceList(List):
    """List the services of the database.

    A service is up while its last heartbeat is more recent than service_down_time.
    """

    nouns = "services"

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        down_time = self.app.client.settings.default.service_down_time
        database = self.app.client.database
        services, now = database.services(), database.now()

        def state(service: Service) -> str:
            up = is_up(service.last_seen_up, now, down_time) and not service.forced_down
            return "up" if up else "down"

        return rows({**_COLUMNS, "state": state}, services)


class ServiceDisable(Action):
    """Disable this host for scheduling.

    Placement gets the trait COMPUTE_STATUS_DISABLED. Calls are served as before.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--reason", required=True, help="The reason, which `service list` shows."
        )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        service = self.app.client.call("set_service", True, parsed_args.reason)
        self.app.LOG.info("%s is disabled: %s", service["host"], parsed_args.reason)


class ServiceEnable(Action):
    """Enable this host for scheduling."""

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        service = self.app.client.call("set_service", False)
        self.app.LOG.info("%s is enabled", service["host"])


class ServiceForceDown(Action):
    """Record that a host is down, whatever its agent reports, or (--off) that it no longer is.

    No scheduler selects the host, and `server evacuate` starts its servers elsewhere. Do it only
    if the guests of the host do not run any more: the host is switched off, or fenced. Any
    scheduler makes the change; with --offline it is made in the database that all share. An agent
    that runs learns of it at its next heartbeat or report, and grants no claims until --off.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("host", help="The service host.")
        parser.add_argument("--off", action="store_true", help="The host is back.")

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        client, host, down = self.app.client, parsed_args.host, not parsed_args.off
        if self.app.options.offline:
            client.database.force_down(host, down)
        else:
            client.call_scheduler("force_down_service", host=host, forced_down=down)
        self.app.LOG.info("%s is %s", host, "forced down" if down else "no longer forced down")


def is_up(seen: datetime | None, now: datetime, down_time: float) -> bool:
    """Return whether a service is up.

    A time in the future is from before the clock was set back: a service that is up has sent a
    heartbeat since.

    :param seen: the last heartbeat. :param now: by the same clock.
    :param down_time: seconds without a heartbeat after which a service is down.
    """
    return seen is not None and abs(now - seen) < timedelta(seconds=down_time)


if TYPE_CHECKING:
    from rtagent.db.node_records import Rule

#: The columns of what a restored database lacks.
_LOST = ("what", "uuid", "owner", "acknowledged", "found")


class ProviderFileLines(Column[Sequence[Mapping[str, Any]]]):
    """A line for each provider that a file describes, and one for each thing that it adds."""

    def lines(self) -> Iterable[str]:
        for each in self._value:
            yield f"{each['provider']}: {each['file']}"
            for name, record in each["inventories"].items():
                fields = (f"{field} {value:g}" for field, value in record.items())
                yield f"  {name}: {', '.join(fields)}"
            yield from (f"  {name}" for name in each["traits"])


_QUANTITIES = ("total", "reserved", "claimable", "used", "free")


class InventoryLines(Column[Mapping[str, Mapping[str, Any]]]):
    """A line for each resource.

    Disk is shown in GB: total, claimable and free are rounded down, reserved and used up.
    """

    def lines(self) -> Iterable[str]:
        lines: list[tuple[str, ...]] = [("", "ratio", *_QUANTITIES)]
        for resource, quantities in self._value.items():
            ratio = f"{quantities['allocation_ratio']:g}"
            lines.append(
                (resource, ratio, *(_quantity(resource, quantities, a) for a in _QUANTITIES))
            )
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return [_aligned(line, widths) for line in lines]


_LIST = columns(
    *("hypervisor_hostname", "host", "vcpus_used", "vcpus", "memory_mb_used", "memory_mb"),
    *("local_gb_used", "local_gb", "claims", "orphans", "drifts", "absent", "suspects"),
)
_SHOW = {
    **columns("uuid", "host", "hypervisor_hostname", "hypervisor_type", "hypervisor_version"),
    **columns("host_ip", "inventories", inventories=InventoryLines),
    **columns(
        *("provider_files", "pci_devices", "pci_device_pools", "disk_available_least"),
        *("running_vms", "current_workload", "claims", "orphans", "drifts", "absent", "suspects"),
        *("stats", "revision", "epoch"),
        default=OrEmpty,
        provider_files=ProviderFileLines,
        pci_devices=Counts,
        pci_device_pools=PciPools,
        stats=KeyValues,
    ),
}


class NodeList(List):
    """List the nodes: that of the agent, or with --offline all nodes of the database."""

    nouns = "nodes"

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        return rows(_LIST, self.app.client.read("nodes")["nodes"])


class NodeShow(Show):
    """Show a node: what it has, what is reserved, used and free.

    "used" is what claims and foreign domains use; "claimable" is (total - reserved) * ratio.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_node(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> Row:
        return row(_SHOW, read_node(self.app.client, "nodes", parsed_args.node))


class NodeRemove(Action):
    """Remove a node's record from the database.

    This is refused while the node has claims or its agent is up. The history stays. If an agent
    with the same uuid starts again, the record is restored. An agent with a database of its own has
    its record there: run the command on its host.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("node", help="The uuid or hypervisor_hostname of the node.")
        with_dry_run(parser, "remove")

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        settings, dry_run = self.app.client.settings, parsed_args.dry_run
        down_time = settings.default.service_down_time
        try:
            database = self.app.client.database
            now = database.now()
            rule = removal_rule(now, down_time)
            node = database.remove_node(parsed_args.node, rule, now, dry_run=dry_run).node
        except (NodeNotFound, StoreUnavailable) as error:
            if not settings.database.connection.startswith("sqlite"):
                raise
            type_ = NotFound if isinstance(error, NodeNotFound) else StoreUnavailable
            raise type_(f"{error.message}. {_elsewhere(down_time)}") from error
        done = "would be" if dry_run else "is"
        self.app.LOG.info("node %s (%s) %s removed", node.hypervisor_hostname, node.uuid, done)


class NodeAcceptRestore(List):
    """Accept a database that is older than what the agent had acknowledged.

    Until then the agent creates no claims and frees none by itself. Without --revision the command
    changes nothing. It lists the claims that may be missing or changed, as far as the agent knows
    them, and the domains without a claim. Compare the list with what should run on this host. Then
    repeat the command with the revision that it names. The agent audits the host first.
    """

    nouns = "differences and no orphans"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--revision",
            type=int,
            help="Accept the restored database of this revision. Without this option the command"
            " names the revision.",
        )

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        client, log = self.app.client, self.app.LOG
        if parsed_args.revision is None:
            shown = client.call("get_restore")
        else:
            shown = client.call("accept_restore", parsed_args.revision)
        restore = shown["restore"]
        if restore is None:
            log.info("the database was not restored: there is nothing to accept")
            return _LOST, []
        log.warning("%s", shown["sentence"])
        if parsed_args.revision is None:
            log.warning(
                "nothing was changed: to accept it, run rtagent node accept-restore --revision %s",
                restore["revision"],
            )
        else:
            log.info("the database is accepted: claims are created again")
        return _LOST, [*_claims(restore["differences"]), *_orphans(shown["orphans"])]


def add_node(parser: argparse.ArgumentParser) -> None:
    """Add the optional argument that names a node."""
    parser.add_argument(
        "node",
        nargs="?",
        help="The uuid or hypervisor_hostname of the node. Default: the only one.",
    )


def read_node(client: Client, noun: str, name: str | None) -> Mapping[str, Any]:
    """Return the document of one node.

    :param noun: ``nodes`` or ``numa``, a path of the read API. :param name: None: the only one.
    :raises NodeNotFound: there is no such node, or no name is given and there is not just one.
    """
    if name is None:
        return only_node(client.read(noun)[noun])
    found: Mapping[str, Any] = client.read(noun, name)[noun.removesuffix("s")]
    return found


def only_node(documents: Sequence[Mapping[str, Any]], name: str | None = None) -> Mapping[str, Any]:
    """Return the document of a node. :param name: None: of the only one.

    :raises NodeNotFound: there is no such node, or no name is given and there is not just one.
    """
    found = [
        each
        for each in documents
        if name is None or name in (each["uuid"], each["hypervisor_hostname"])
    ]
    if len(found) != 1:
        served = ", ".join(each["hypervisor_hostname"] for each in documents) or "none"
        raise NodeNotFound(node=name or "(unnamed)", served=served)
    return found[0]


def removal_rule(now: datetime, service_down_time: int) -> Rule:
    """Return the rule that decides whether a record may be removed at this time.

    :param service_down_time: seconds after the last heartbeat when an agent counts as down.
    """

    def rule(record: NodeRecord, live_claims: int) -> None:
        name = f"node {record.node.hypervisor_hostname} ({record.node.uuid})"
        if live_claims:
            raise ClaimConflict(f"{name} has {live_claims} live claims: release them first")
        if is_up(record.last_seen_up, now, service_down_time):
            raise IdentityError(
                f"{name}: its agent sent a heartbeat less than service_down_time"
                f" ({service_down_time} s) ago: stop it, and wait until that time is over"
            )

    return rule


def _elsewhere(down_time: int) -> str:
    """Return what to do about the record of an agent that has a database of its own."""
    from rtagent.scheduler.host_manager import FORGOTTEN_AFTER

    return (
        "This database is a file of this machine. An agent with a database of its own has its"
        " record there: run the command on its host. If that host is gone, there is nothing to"
        f" remove: schedulers drop a host after {FORGOTTEN_AFTER * down_time} s without a message"
    )


def _quantity(resource: str, quantities: Mapping[str, Any], name: str) -> str:
    quantity = quantities[name]
    if resource != "DISK_GB":
        return str(quantity)
    upwards = name in ("reserved", "used")
    return str(round_up(quantity, MB_IN_GB) if upwards else quantity // MB_IN_GB)


def _aligned(line: Sequence[str], widths: Sequence[int]) -> str:
    first, *others = zip(line, widths, strict=True)
    cells = (text.rjust(width) for text, width in others)
    return "  ".join((first[0].ljust(first[1]), *cells))


def _claims(differences: Sequence[Mapping[str, Any]]) -> Iterator[Sequence[str]]:
    for each in differences:
        was, found = each["acknowledged"] or "ended", each["stored"] or "missing"
        yield "claim", each["claim_uuid"], each["owner_id"], was, found


def _orphans(orphans: Sequence[Mapping[str, Any]]) -> Iterator[Sequence[str]]:
    for each in orphans:
        runs = "running" if each["active"] else "shut off"
        yield "orphan", each["domain_uuid"], each["name"], "", runs
