"""rtagent migration: the moves of guests."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from rtagent.cmd.base import List, Rows
from rtagent.cmd.output import OrEmpty, timestamp

COLUMNS = ("uuid", "instance_uuid", "type", "role", "status", "from", "to", "claim", "updated_at")


class MigrationList(List):
    """List the moves of which this host is the source or the destination, oldest first.

    Each is shown as recorded on this side. Those that have ended are kept for some time.
    """

    nouns = "migrations"

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--instance", metavar="UUID", help="Only moves of this instance.")
        parser.add_argument("--status", help="Only moves in this status, for example finished.")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        filters = {"instance": parsed_args.instance, "status": parsed_args.status}
        migrations = self.app.client.read("migrations", **filters)["migrations"]
        return COLUMNS, list(map(_row, migrations))


def _row(migration: Mapping[str, Any]) -> Sequence[Any]:
    required = ("uuid", "instance_uuid", "migration_type", "role", "status")
    optional = ("source_compute", "dest_compute", "claim_uuid")
    return (
        *(migration[name] for name in required),
        *(OrEmpty(migration.get(name)) for name in optional),
        timestamp(migration["updated_at"]),
    )
