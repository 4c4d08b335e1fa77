"""rtagent orphan: domains without a claim."""

from __future__ import annotations

import argparse

from rtagent.cmd.base import List, Rows
from rtagent.cmd.output import Lines, YesNo

COLUMNS = ("domain_uuid", "name", "running", "vcpus", "memory_mb", "unknown")


class OrphanList(List):
    """List the domains on the host that have no claim.

    Their resources count as used, so that no claim gets them. The column unknown names the kinds of
    resources of which a domain may use more, because a part of its document cannot be read. While
    it runs, no claim gets any resource of these kinds; "rtagent audit run" lists what to correct.
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
                Lines(sorted(each["occupancy"]["unknown"])),
            )
            for each in self.app.client.read("orphans")["orphans"]
        ]
