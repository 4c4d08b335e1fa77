"""rtagent placement: compare what Placement has of this host with what the agent wants.

``diff`` and ``show`` read the database and Placement, so that they work while the agent is down.
``sync`` needs the agent.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from rtagent.cmd.base import List, Row, Rows, Show
from rtagent.cmd.cells import Column
from rtagent.cmd.client import Client
from rtagent.cmd.output import Lines
from rtagent.errors import (
    HypervisorUnavailable,
    NodeNotFound,
    PlacementError,
    RtAgentError,
)
from rtagent.model.node_state import NodeState
from rtagent.placement import tree
from rtagent.placement.allocation_audit import allocated_consumers, unclaimed
from rtagent.placement.client import HttpPlacement
from rtagent.placement.diff import Difference, differences
from rtagent.placement.loading import load, not_configured
from rtagent.placement.ownership import MemoryOwnership, OwnershipFile, obsolete_providers
from rtagent.placement.provider import InventoryRecord, Tree
from rtagent.placement.synchroniser import read_provider
from rtagent.placement.takeover import next_adoption

COLUMNS = ("provider", "kind", "item", "placement", "agent")


class PlacementDiff(List):
    """List what the agent would change in Placement.

    The list is empty if Placement has what the agent wants, of the host and of each device with a
    provider of its own. What other clients have set there is not compared. Providers of this host
    that the agent adopts at its start count as its own.
    """

    nouns = "differences"

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        return with_node(super().get_parser(prog_name))

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        client = self.app.client
        api = placement_api(client)
        ownership: MemoryOwnership = OwnershipFile(client.settings.default.state_path)
        state = node_state(client, parsed_args.node)
        tree_ = wanted_tree(client, state)
        if state.node.host == client.settings.default.host:
            found, ownership = next_adoption(api, ownership, state, tree_), ownership.copy()
            for adopted, contents in found.owned:
                ownership.remember(adopted, contents)
            state = client.database.adopted(state, found.adoption)
        tree_ = wanted_tree(client, state, _unclaimed(api, state))
        return COLUMNS, [
            _row(difference)
            for wanted in (*tree_.providers, *obsolete_providers(ownership, tree_))
            for difference in differences(
                read_provider(api, wanted), wanted, ownership.of(wanted.uuid)
            )
        ]


class PlacementShow(Show):
    """Show what Placement has of a node.

    "used" is the sum of the allocations. Traits that the agent has set are listed apart from those
    of other clients.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        return with_node(super().get_parser(prog_name))

    def take_action(self, parsed_args: argparse.Namespace) -> Row:
        client = self.app.client
        api, ownership = placement_api(client), OwnershipFile(client.settings.default.state_path)
        state = node_state(client, parsed_args.node)
        root = wanted_tree(client, state).providers[0]
        current = read_provider(api, root)
        if current is None:
            raise PlacementError(f"Placement has no provider {root.name} ({root.uuid})")
        allocations = api.allocations(root.uuid)["allocations"]
        ours = root.exclusive.traits | ownership.of(root.uuid).traits
        shown = {
            "uuid": root.uuid,
            "name": root.name,
            "inventories": Records(dict(_records(current.inventories, allocations))),
            "our_traits": Lines(sorted(current.traits & ours)),
            "other_traits": Lines(sorted(current.traits - ours)),
            "consumers": len(allocations),
            "unwritten_allocations": len(state.outbox),
        }
        return tuple(shown), tuple(shown.values())


class PlacementSync(Show):
    """Have the agent synchronise Placement now.

    The agent reads everything from Placement again and sends what differs.
    """

    def take_action(self, parsed_args: argparse.Namespace) -> Row:
        synced = self.app.client.call("sync_placement")
        return tuple(synced), tuple(synced.values())


class Records(Column[Mapping[str, Mapping[str, Any]]]):
    """A line for each resource class."""

    def lines(self) -> Iterable[str]:
        return [f"{name}: {_summary(record)}" for name, record in self._value.items()]


class Side(Column[Any]):
    """One side of a difference, in one line."""

    def lines(self) -> Iterable[str]:
        return [self._value if isinstance(self._value, str) else _summary(self._value)]


def with_node(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Add the argument that names a node."""
    parser.add_argument(
        "node",
        nargs="?",
        help="The uuid or hypervisor_hostname of the node. Default: that of this host.",
    )
    return parser


def placement_api(client: Client) -> HttpPlacement:
    """Return the client of Placement. :raises PlacementError: it is not configured."""
    api = load(client.conf)
    if api is None:
        raise not_configured()
    return api


def wanted_tree(
    client: Client, state: NodeState, unclaimed: Mapping[str, Mapping[str, int]] = {}
) -> Tree:
    """Return what Placement should have of a node. :param unclaimed: as `tree.build`."""
    services = {service.host: service for service in client.database.services()}
    service = services.get(state.node.host)
    disabled = service is not None and (service.disabled or service.forced_down)
    wanted = tree.build(state, disabled, _hypervisor_up(client), unclaimed)
    if wanted is None:
        raise RtAgentError(f"{state.node.hypervisor_hostname} has not been audited yet")
    return wanted


def _unclaimed(api: HttpPlacement, state: NodeState) -> Mapping[str, Mapping[str, int]]:
    root = state.node.uuid
    listed = {root: api.allocations(root)["allocations"]} if api.provider(root) else {}
    return unclaimed(state, allocated_consumers(listed))


def node_state(client: Client, name: str | None) -> NodeState:
    """Return the state of a node from the database.

    :param name: its uuid or hypervisor_hostname; None: the node of this host.
    """
    states = client.database.states()
    host = client.settings.default.host
    found = [
        state
        for state in states
        if (name in (state.node.uuid, state.node.hypervisor_hostname))
        or (name is None and state.node.host == host)
    ]
    if len(found) != 1:
        served = ", ".join(state.node.hypervisor_hostname for state in states) or "none"
        raise NodeNotFound(node=name or f"of host {host}", served=served)
    return found[0]


def _hypervisor_up(client: Client) -> bool:
    """Whether the agent reports that the hypervisor is up. The database does not have that.

    Without an agent the hypervisor is assumed to be up.
    """
    try:
        client.reader.get("ready")
    except HypervisorUnavailable:
        return False
    except RtAgentError:
        return True
    return True


def _row(difference: Difference) -> Sequence[Any]:
    sides = msgspec.to_builtins((difference.placement, difference.agent))
    return (difference.provider, difference.kind, difference.item, *map(Side, sides))


def _records(
    records: Mapping[str, InventoryRecord], allocations: Mapping[str, Any]
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    used: Counter[str] = Counter()
    for allocation in allocations.values():
        used.update(allocation["resources"])
    for name in sorted(records):
        yield name, {**msgspec.to_builtins(records[name]), "used": used[name]}


def _summary(record: Mapping[str, Any]) -> str:
    fields = ("total", "reserved", "allocation_ratio", "max_unit", "used")
    return ", ".join(f"{name} {record[name]:g}" for name in fields if name in record)
