"""rtagent placement reshape: what the agent will move in Placement when it starts."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from rtagent.cmd.base import List, Rows
from rtagent.cmd.placement import node_state, placement_api, wanted_tree, with_node
from rtagent.errors import RtAgentError
from rtagent.placement.layout import Layout, Quantities
from rtagent.placement.ownership import OwnershipFile
from rtagent.placement.reshape import Refusal, Reshape
from rtagent.placement.takeover import next_adoption, read_and_plan, refused

COLUMNS = ("provider", "resource_class", "consumer", "before", "after")


class PlacementReshape(List):
    """List what the agent moves in Placement at its next start.

    A line without a consumer is an inventory, with its total. A line with a consumer is a part of
    its allocations. The agent writes all of them in one request, before it publishes anything. If
    it cannot, the command fails, and the message names the consumer and the remedy.

    The command reads the database and Placement, so that it works while the agent is down.
    """

    nouns = "reshape is needed: nothing to do"

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = with_node(super().get_parser(prog_name))
        parser.add_argument(
            "--dry-run",
            action="store_true",
            help="Show the plan. Required: only the agent reshapes, when it starts.",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        if not parsed_args.dry_run:
            raise RtAgentError(
                "the agent reshapes when it starts: restart rtagentd; with --dry-run this command"
                " shows what it will do"
            )
        client = self.app.client
        api, state = placement_api(client), node_state(client, parsed_args.node)
        ownership = OwnershipFile(client.settings.default.state_path)
        tree = wanted_tree(client, state)
        found = next_adoption(api, ownership, state, tree)
        state = client.database.adopted(state, found.adoption)
        now, plan = read_and_plan(api, state, wanted_tree(client, state))
        if isinstance(plan, Refusal):
            raise refused(plan)
        return COLUMNS, [] if plan is None else list(_rows(now, plan))


def _rows(now: Layout, plan: Reshape) -> Iterator[Sequence[Any]]:
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
