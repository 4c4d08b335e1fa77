"""rtagent resource: virtual GPUs, namespaces of persistent memory, and who has each."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import Any

from rtagent.cmd.columns import Nothing, Yes
from rtagent.cmd.listing import List

COLUMNS = ("resource_class", "identifier", "status", "owner_id", "name", "present")
LONG = (*COLUMNS, "provider", "mdev_uuid", "claim_uuid", "node")


class ResourceList(List):
    """List the units of specific resources (virtual GPUs, persistent memory) with who has each

    One that is held and not present is gone, or offered no more; it stays with its holder.
    """

    nouns = "specific resources"

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--long", action="store_true", help="More columns.")
        return parser

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        columns = LONG if parsed_args.long else COLUMNS
        return columns, [
            tuple(Yes(each[name]) if name == "present" else Nothing(each[name]) for name in columns)
            for each in self.world.read("resources")["resources"]
        ]
