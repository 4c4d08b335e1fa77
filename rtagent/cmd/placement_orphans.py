"""rtagent placement orphans: allocations in Placement that belong to no claim of a node.

The commands read the database and Placement, so that they work while the agent is down.
"""

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from oslo_utils.uuidutils import is_uuid_like

from rtagent.cmd.base import List, Row, Rows, Show, checked, with_dry_run
from rtagent.cmd.client import Client
from rtagent.cmd.output import Column, timestamp
from rtagent.cmd.placement import node_state, placement_api, with_node
from rtagent.errors import ConsumerNotFound, RtAgentError
from rtagent.model.consumers import Parts
from rtagent.model.node_state import NodeState
from rtagent.placement.allocation_audit import (
    AllocatedConsumer,
    AllocationVerdict,
    Finding,
    check_deletable,
    classify,
    without_record,
)
from rtagent.placement.client import HttpPlacement
from rtagent.placement.consumers import change_parts, read_consumers

COLUMNS = ("consumer", "type", "project", "provider", "resources", "reason", "since")


class PlacementOrphans(List):
    """List the allocations on a node that belong to no claim.

    Their consumers are instances or migrations that have ended here, or that were never here. An
    allocation that was written a moment ago may still get its claim. "since" is the time at which
    the running agent first saw it in this form.
    """

    nouns = "orphaned allocations"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        with_node(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        client = self.app.client
        api, state = placement_api(client), node_state(client, parsed_args.node)
        names = _providers(api, state)
        seen = _seen(client)
        return COLUMNS, [
            row
            for finding in _orphans(client, api, state, names)
            for row in _rows(api.consumer(finding.consumer.uuid), finding, names, seen)
        ]


class PlacementOrphansDelete(Show):
    """Delete the allocations on a node of a consumer without a claim there.

    Refused for a consumer with a claim, a move or a domain on the node. What the consumer has on
    other hosts stays.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "consumer",
            type=checked(is_uuid_like, "is not a uuid"),  # it becomes a part of a path
            help="The uuid of the consumer, as placement orphans lists it.",
        )
        with_node(parser)
        with_dry_run(parser, "delete")

    def take_action(self, parsed_args: argparse.Namespace) -> Row:
        client, uuid = self.app.client, parsed_args.consumer
        api, state = placement_api(client), node_state(client, parsed_args.node)
        names = _providers(api, state)
        had: dict[str, Mapping[str, int]] = {}

        def nothing(now: AllocatedConsumer) -> Parts | None:
            check_deletable(node_state(client, state.node.uuid), uuid)
            had.update(now.parts)
            return None if parsed_args.dry_run else {}

        shared = state.policy.placement.disk_provider
        identity = api.consumer(uuid)
        changed = change_parts(api, uuid, names.keys(), nothing, shared=shared)
        if changed is None and not had:
            raise ConsumerNotFound(consumer_uuid=uuid, node=state.node.hypervisor_hostname)
        before = had if changed is None else changed.allocations
        elsewhere = {
            name: part["resources"]
            for name, part in api.consumer(uuid)["allocations"].items()
            if name not in before
        }
        deleted = {names.get(name, name): resources for name, resources in before.items()}
        shown = {
            "consumer": uuid,
            "type": identity.get("consumer_type", ""),
            "project": identity.get("project_id", ""),
            "deleted": AllocatedParts({} if parsed_args.dry_run else deleted),
            **({"would_be_deleted": AllocatedParts(deleted)} if parsed_args.dry_run else {}),
            "kept_elsewhere": AllocatedParts(elsewhere),
        }
        return tuple(shown), tuple(shown.values())


class Resources(Column[Mapping[str, int]]):
    """The quantities of resource classes, in one line."""

    def lines(self) -> Iterable[str]:
        return [_quantities(self._value)]


class AllocatedParts(Column[Parts]):
    """A line for each provider."""

    def lines(self) -> Iterable[str]:
        return [f"{name}: {_quantities(resources)}" for name, resources in self._value.items()]


def _quantities(resources: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {resources[name]}" for name in sorted(resources))


def _providers(api: HttpPlacement, state: NodeState) -> Mapping[str, str]:
    """Return the names of the node's providers, by uuid."""
    return {each["uuid"]: each["name"] for each in api.tree(state.node.uuid)}


def _orphans(
    client: Client, api: HttpPlacement, state: NodeState, providers: Iterable[str]
) -> list[Finding]:
    consumers = read_consumers(api, providers)
    ended = client.database.ended(state.node.uuid, without_record(state, consumers))
    findings = classify(state, consumers, ended, {})
    return [
        each
        for each in findings
        if each.verdict in (AllocationVerdict.ENDED, AllocationVerdict.UNKNOWN)
    ]


def _seen(client: Client) -> Mapping[str, str]:
    """Return since when the running agent knows of each finding, by consumer."""
    try:
        found = client.reader.get("allocations")["allocations"]
    except RtAgentError:
        return {}
    return {each["consumer_uuid"]: each["since"] for each in found}


def _rows(
    content: Mapping[str, Any], finding: Finding, names: Mapping[str, str], seen: Mapping[str, str]
) -> Iterator[Sequence[Any]]:
    uuid = finding.consumer.uuid
    for provider, resources in sorted(finding.consumer.parts.items()):
        yield (
            uuid,
            content.get("consumer_type", ""),
            content.get("project_id", ""),
            names[provider],
            Resources(resources),
            finding.reason,
            timestamp(seen.get(uuid)),
        )
