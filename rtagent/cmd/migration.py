"""rtagent migration: guests that move, and have moved."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rtagent.cmd.columns import Nothing, when
from rtagent.cmd.listing import List

COLUMNS = ("uuid", "instance_uuid", "type", "role", "status", "from", "to", "claim", "updated_at")


class MigrationList(List):
    """List the moves that this host has a part in, oldest first

    Of each, what its own side knows; those that have ended are kept for a time.
    """

    nouns = "migrations"

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--instance", metavar="UUID", help="Only this instance's.")
        parser.add_argument("--status", help="Only those in this status, finished for one.")
        return parser

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        filters = {"instance": parsed_args.instance, "status": parsed_args.status}
        return COLUMNS, list(map(_row, self.world.read("migrations", **filters)["migrations"]))


def _row(migration: Mapping[str, Any]) -> Sequence[Any]:
    plain = ("uuid", "instance_uuid", "migration_type", "role", "status")
    maybe = ("source_compute", "dest_compute", "claim_uuid")
    return (
        *(migration[name] for name in plain),
        *(Nothing(migration.get(name)) for name in maybe),
        when(migration["updated_at"]),
    )
