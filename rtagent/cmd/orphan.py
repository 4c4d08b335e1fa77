"""rtagent orphan: domains without a claim."""

from __future__ import annotations

import argparse

from rtagent.cmd.base import List, Rows
from rtagent.cmd.output import YesNo

COLUMNS = ("domain_uuid", "name", "running", "vcpus", "memory_mb")


class OrphanList(List):
    """List the domains on the host that have no claim.

    Their resources count as used, so that no claim gets them.
    """

    nouns = "orphans"

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        return COLUMNS, [
            (
                each["domain_uuid"],
                each["name"],
                YesNo(each["active"]),
                each["vcpus"],
                each["memory_mb"],
            )
            for each in self.app.client.read("orphans")["orphans"]
        ]
