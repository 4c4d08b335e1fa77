"""rtagent audit: compare the claims with the hypervisor."""

from __future__ import annotations

import argparse

from rtagent.cmd.base import Row, Show
from rtagent.cmd.output import Lines, YesNo

COUNTS = ("applied", "skipped", "claims", "orphans", "drifts", "absent", "suspects")


class AuditRun(Show):
    """Run an audit now, and show what it found and changed."""

    def take_action(self, parsed_args: argparse.Namespace) -> Row:
        audit = self.app.client.call("update_available_resource")
        problems = Lines([f"{p['item']}: {p['message']}" for p in audit["problems"]])
        return (
            ("summary", "complete", *COUNTS, "problems", "seconds"),
            (
                audit["sentence"],
                YesNo(audit["complete"]),
                *(audit[name] for name in COUNTS),
                problems,
                round(audit["seconds"], 3),
            ),
        )
