"""rtagent drift: domains that differ from their claims."""

from __future__ import annotations

import argparse

from rtagent.cmd.base import List, Rows

COLUMNS = ("instance_uuid", "claim_uuid", "resource", "claimed", "observed", "unit", "problem")


class DriftList(List):
    """List the differences between domains and their claims.

    The larger quantity counts as used. A claimed host CPU or device that is removed, offline or no
    longer in the inventory is an AssignedResourceNotFound: the claim keeps it. A domain may use
    more of a kind of resources with UsageUnknown, because a part of its document cannot be read.
    The agent does not change a domain or a claim because of drift.
    """

    nouns = "drift"

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        return COLUMNS, [
            (each["owner_id"], *(each[name] for name in COLUMNS[1:]))
            for each in self.app.client.read("drift")["drift"]
        ]
