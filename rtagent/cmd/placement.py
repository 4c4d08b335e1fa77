"""rtagent placement: compare what Placement has of this host with what the agent wants.

``diff`` and ``show`` read the database and Placement, so that they work while the agent is down.
``sync`` needs the agent.
"""

import argparse
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from rtagent.cmd.base import List, Row, Rows, Show
from rtagent.cmd.client import Client
from rtagent.cmd.output import Column, Lines
from rtagent.errors import HypervisorUnavailable, NodeNotFound, PlacementError, RtAgentError
from rtagent.model.node_state import NodeState
from rtagent.placement import tree
from rtagent.placement.allocation_audit import unclaimed
from rtagent.placement.client import HttpPlacement
from rtagent.placement.consumers import read_consumers
from rtagent.placement.diff import Difference, differences
from rtagent.placement.loading import load, not_configured
from rtagent.placement.provider import InventoryRecord, Ownership, Tree, obsolete_providers
from rtagent.placement.reshape import Reshape, ReshapeRefusal
from rtagent.placement.synchroniser import read_provider
from rtagent.placement.takeover import next_adoption, read_and_plan, refused
from rtagent.placement.tree import Layout, Quantities

COLUMNS = ("provider", "kind", "item", "placement", "agent")
MOVED = ("provider", "resource_class", "consumer", "before", "after")


class PlacementDiff(List):
    """List what the agent would change in Placement.

    The list is empty if Placement has what the agent wants, of the host and of each device with a
    provider of its own. What other clients have set there is not compared. Providers of this host
    that the agent adopts at its start count as its own.
    """

    nouns = "differences"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        with_node(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        client = self.app.client
        api = placement_api(client)
        ownership = Ownership(client.settings.default.state_path)
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

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        with_node(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> Row:
        client = self.app.client
        api, ownership = placement_api(client), Ownership(client.settings.default.state_path)
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


class PlacementReshape(List):
    """List what the agent moves in Placement at its next start.

    A line without a consumer is an inventory, with its total. A line with a consumer is a part of
    its allocations. The agent writes all of them in one request, before it publishes anything. If
    it cannot, the command fails, and the message names the consumer and the remedy.

    The command reads the database and Placement, so that it works while the agent is down.
    """

    nouns = "reshape is needed: nothing to do"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        with_node(parser)
        parser.add_argument(
            "--dry-run",
            action="store_true",
            help="Show the plan. Required: only the agent reshapes, when it starts.",
        )

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        if not parsed_args.dry_run:
            raise RtAgentError(
                "the agent reshapes when it starts: restart rtagentd; with --dry-run this command"
                " shows what it will do"
            )
        client = self.app.client
        api, state = placement_api(client), node_state(client, parsed_args.node)
        ownership = Ownership(client.settings.default.state_path)
        tree = wanted_tree(client, state)
        found = next_adoption(api, ownership, state, tree)
        state = client.database.adopted(state, found.adoption)
        now, plan = read_and_plan(api, state, wanted_tree(client, state))
        if isinstance(plan, ReshapeRefusal):
            raise refused(plan)
        return MOVED, [] if plan is None else list(_moved(now, plan))


def with_node(parser: argparse.ArgumentParser) -> None:
    """Add the argument that names a node."""
    parser.add_argument(
        "node",
        nargs="?",
        help="The uuid or hypervisor_hostname of the node. Default: that of this host.",
    )


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
    return unclaimed(state, read_consumers(api, [state.node.uuid]))


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


def _moved(now: Layout, plan: Reshape) -> Iterator[Sequence[Any]]:
    for uuid, after in plan.providers.items():
        found = now.providers.get(uuid)
        before = found.inventories if found else {}
        for name in sorted({*before, *after.inventories}):
            totals = [
                records[name].total if name in records else 0
                for records in (before, after.inventories)
            ]
            if totals[0] != totals[1]:
                yield after.name, name, "", *totals
    names = {uuid: each.name for uuid, each in plan.providers.items()}
    for consumer, changed in plan.consumers.items():
        known = now.consumers[consumer].allocations
        for uuid in sorted({*known, *changed.allocations}, key=lambda uuid: names.get(uuid, uuid)):
            yield from (
                (names.get(uuid, uuid), name, consumer, *quantities)
                for name, quantities in _changes(
                    known.get(uuid, {}), changed.allocations.get(uuid, {})
                )
            )


def _changes(before: Quantities, after: Quantities) -> Iterator[tuple[str, tuple[int, int]]]:
    old, new = Counter(before), Counter(after)
    for name in sorted({*old, *new}):
        if old[name] != new[name]:
            yield name, (old[name], new[name])
