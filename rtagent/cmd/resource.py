"""rtagent resource: virtual GPUs and persistent memory with their owners."""

from __future__ import annotations

import argparse

from rtagent.cmd.base import List, Rows
from rtagent.cmd.output import OrEmpty, YesNo

COLUMNS = ("resource_class", "identifier", "status", "owner_id", "name", "present")
LONG_COLUMNS = (*COLUMNS, "parent_addr", "provider", "mdev_uuid", "claim_uuid", "node")


class ResourceList(List):
    """List the assigned resources (virtual GPUs, persistent memory) with their owners.

    One that is claimed and not present was removed from the host or from the configuration; the
    claim keeps it.
    """

    nouns = "assigned resources"

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--long", action="store_true", help="Show more columns.")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        columns = LONG_COLUMNS if parsed_args.long else COLUMNS
        return columns, [
            tuple(
                YesNo(each[name]) if name == "present" else OrEmpty(each[name]) for name in columns
            )
            for each in self.app.client.read("resources")["resources"]
        ]
