"""rtagent placement: what Placement has of this host, and what it shall have.

Both come from the database and Placement itself, so that they answer while the agent is down; to
bring it up to date takes the agent.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from rtagent.cmd.columns import Lines, Pairs
from rtagent.cmd.listing import List, Show
from rtagent.cmd.world import World
from rtagent.errors import (
    ConfigError,
    HypervisorUnavailable,
    NodeNotFound,
    PlacementError,
    RtAgentError,
)
from rtagent.model.host import HostState
from rtagent.placement import reading, tree
from rtagent.placement.client import HttpPlacement
from rtagent.placement.differences import Difference, differences
from rtagent.placement.loading import load
from rtagent.placement.ownership import OwnershipFile, gone
from rtagent.placement.provider import Record, Tree

COLUMNS = ("provider", "kind", "item", "placement", "agent")


class PlacementDiff(List):
    """List what the agent would change in Placement

    Nothing is listed while Placement shows what it shall: of the host, and of each of its devices
    that has a provider of its own. What others have set there is not compared.
    """

    nouns = "differences"

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        return _with_node(super().get_parser(prog_name))

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        api, ownership = _api(self.world), OwnershipFile(self.world.settings.default.state_path)
        wanted_tree = _wanted(self.world, parsed_args.node)
        return COLUMNS, [
            _row(difference)
            for wanted in (*wanted_tree.providers, *gone(ownership, wanted_tree))
            for difference in differences(
                reading.read(api, wanted), wanted, ownership.of(wanted.uuid)
            )
        ]


class PlacementShow(Show):
    """Show what Placement has of a node

    "used" is the sum of the allocations; traits are listed apart by whether the agent has set them.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        return _with_node(super().get_parser(prog_name))

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Sequence[Any]]:
        api, ownership = _api(self.world), OwnershipFile(self.world.settings.default.state_path)
        root = _wanted(self.world, parsed_args.node).providers[0]
        seen, ours = reading.read(api, root), ownership.of(root.uuid)
        if seen is None:
            raise PlacementError(f"Placement has no provider {root.name} ({root.uuid})")
        allocations = api.allocations(root.uuid)["allocations"]
        mine = root.ruled.traits | ours.traits
        shown = {
            "uuid": root.uuid,
            "name": root.name,
            "inventories": Records(dict(_records(seen.inventories, allocations))),
            "our_traits": Lines(sorted(seen.traits & mine)),
            "other_traits": Lines(sorted(seen.traits - mine)),
            "consumers": len(allocations),
        }
        return tuple(shown), tuple(shown.values())


class PlacementSync(Show):
    """Have the agent bring Placement up to date now

    It reads anew what Placement has, also where it thinks that it knows, and pushes what differs.
    """

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Sequence[Any]]:
        synced = self.world.call("sync_placement")
        return tuple(synced), tuple(synced.values())


class Records(Pairs):
    """A line for each class."""

    def human_readable(self) -> str:
        return "\n".join(f"{name}: {_told(record)}" for name, record in self._value.items())


class Side(Pairs):
    """One side of a difference, in one line to a person."""

    def human_readable(self) -> str:
        return self._value if isinstance(self._value, str) else _told(self._value)


def _with_node(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    parser.add_argument(
        "node", nargs="?", help="Its uuid or hypervisor_hostname. Default: this host's."
    )
    return parser


def _api(world: World) -> HttpPlacement:
    api = load(world.conf)
    if api is None:
        raise ConfigError(
            group="placement", option="auth_type", value="", rule="unset: nothing is published"
        )
    return api


def _wanted(world: World, name: str | None) -> Tree:
    """What Placement shall show of a node."""
    state = _state(world, name)
    services = {service.host: service for service in world.database.services()}
    service = services.get(state.node.host)
    disabled = service is not None and (service.disabled or service.forced_down)
    wanted = tree.build(state, disabled, _hypervisor_up(world))
    if wanted is None:
        raise RtAgentError(f"{state.node.hypervisor_hostname} has not been audited yet")
    return wanted


def _state(world: World, name: str | None) -> HostState:
    states = world.database.states()
    host = world.settings.default.host
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


def _hypervisor_up(world: World) -> bool:
    """Unless the agent says otherwise: the database does not know."""
    try:
        world.reader.get("ready")
    except HypervisorUnavailable:
        return False
    except RtAgentError:
        return True
    return True


def _row(difference: Difference) -> Sequence[Any]:
    sides = msgspec.to_builtins((difference.placement, difference.agent))
    return (difference.provider, difference.kind, difference.item, *map(Side, sides))


def _records(
    records: Mapping[str, Record], allocations: Mapping[str, Any]
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    used: Counter[str] = Counter()
    for allocation in allocations.values():
        used.update(allocation["resources"])
    for name in sorted(records):
        yield name, {**msgspec.to_builtins(records[name]), "used": used[name]}


def _told(record: Mapping[str, Any]) -> str:
    told = ("total", "reserved", "allocation_ratio", "max_unit", "used")
    return ", ".join(f"{name} {record[name]:g}" for name in told if name in record)
