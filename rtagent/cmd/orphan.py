"""rtagent orphan: domains that no claim accounts for."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import Any

from rtagent.cmd.columns import Yes
from rtagent.cmd.listing import List

COLUMNS = ("domain_uuid", "name", "running", "vcpus", "memory_mb")


class OrphanList(List):
    """List the domains that are here without a claim

    What they use is counted, so that nobody else is granted it.
    """

    nouns = "orphans"

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        orphans = self.world.read("orphans")["orphans"]
        return COLUMNS, [
            (o["domain_uuid"], o["name"], Yes(o["active"]), o["vcpus"], o["memory_mb"])
            for o in orphans
        ]
