"""rtagent node remove: the end of a node's record."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime, timedelta

from rtagent.cmd.listing import Act
from rtagent.db.nodes import Rule
from rtagent.errors import ClaimConflict, IdentityError
from rtagent.model.node import NodeRecord


class NodeRemove(Act):
    """Remove a node's record from the database

    Refused while claims live on it or its agent is up. Its history stays, and the record comes back
    when an agent with its uuid is started again.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("node", help="Its uuid or hypervisor_hostname.")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        now = datetime.now(UTC)
        rule = removable(now, self.world.settings.default.service_down_time)
        node = self.world.database.remove_node(parsed_args.node, rule, now).node
        self.app.LOG.info("node %s (%s) is removed", node.hypervisor_hostname, node.uuid)


def removable(now: datetime, service_down_time: int) -> Rule:
    """The rule at this moment. :param service_down_time: seconds."""

    def rule(record: NodeRecord, live_claims: int) -> None:
        name = f"node {record.node.hypervisor_hostname} ({record.node.uuid})"
        if live_claims:
            raise ClaimConflict(f"{name} has {live_claims} live claims: release them first")
        if record.last_seen_up is None:
            return
        silent = now - record.last_seen_up
        if silent < timedelta(seconds=service_down_time):
            raise IdentityError(
                f"{name}: its agent was seen {max(0, int(silent.total_seconds()))} s ago:"
                f" stop it, and wait until service_down_time ({service_down_time} s) is over"
            )

    return rule
