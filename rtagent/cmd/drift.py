"""rtagent drift: domains that differ from their claims."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import Any

from rtagent.cmd.listing import List

COLUMNS = ("instance_uuid", "claim_uuid", "resource", "claimed", "observed", "unit", "problem")


class DriftList(List):
    """List what domains have that their claims do not say

    The larger of the two amounts is counted. A host CPU or a device that is held, and gone, offline
    or no longer offered, is an AssignedResourceNotFound: it stays with its holder. Nothing is
    repaired by itself.
    """

    nouns = "drift"

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        return COLUMNS, [
            (d["owner_id"], *(d[name] for name in COLUMNS[1:]))
            for d in self.world.read("drift")["drift"]
        ]
