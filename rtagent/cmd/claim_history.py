"""rtagent claim history: what happened to a claim."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import Any

from rtagent.cmd.columns import Nothing, when
from rtagent.cmd.listing import List
from rtagent.db.event import ClaimEvent

COLUMNS = (
    "at",
    "action",
    "before",
    "after",
    "vcpus",
    "memory_mb",
    "disk_mb",
    "migration_uuid",
    "actor",
    "request_id",
    "reason",
)


class ClaimHistory(List):
    """List what happened to a claim, from the database; also after it has ended"""

    nouns = "events of that claim"

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("claim", metavar="UUID")
        return parser

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        return COLUMNS, list(map(_row, self.world.database.history(parsed_args.claim)))


def _row(event: ClaimEvent) -> Sequence[Any]:
    return (
        when(event.at.isoformat()),
        event.action,
        Nothing(event.before and event.before.state),
        event.after.state,
        event.after.vcpus,
        event.after.memory_mb,
        event.after.disk_mb,
        Nothing(event.after.migration_uuid),
        event.actor,
        event.request_id,
        event.reason,
    )
