"""rtagent audit: compare what is claimed with what the hypervisor shows."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from rtagent.cmd.columns import Lines, Yes
from rtagent.cmd.listing import Show

COUNTS = ("applied", "skipped", "claims", "orphans", "drifts", "absent", "suspects")


class AuditRun(Show):
    """Audit now, and say what was found and done"""

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Sequence[Any]]:
        audit = self.world.call("update_available_resource")
        problems = Lines([f"{p['item']}: {p['message']}" for p in audit["problems"]])
        return (
            ("summary", "complete", *COUNTS, "problems", "seconds"),
            (
                audit["sentence"],
                Yes(audit["complete"]),
                *(audit[name] for name in COUNTS),
                problems,
                round(audit["seconds"], 3),
            ),
        )
