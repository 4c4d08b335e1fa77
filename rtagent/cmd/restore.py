"""rtagent node accept-restore: what a restored database may lack, and its acceptance."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rtagent.cmd.base import List, Rows

COLUMNS = ("what", "uuid", "owner", "acknowledged", "found")


class NodeAcceptRestore(List):
    """Accept a database that is older than what the agent had acknowledged.

    Until then the agent creates no claims and frees none by itself. Without --revision the command
    changes nothing. It lists the claims that may be missing or changed, as far as the agent knows
    them, and the domains without a claim. Compare the list with what should run on this host. Then
    repeat the command with the revision that it names. The agent audits the host first.
    """

    nouns = "differences and no orphans"

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--revision",
            type=int,
            help="Accept the restored database of this revision. Without this option the command"
            " names the revision.",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        client, log = self.app.client, self.app.LOG
        if parsed_args.revision is None:
            shown = client.call("get_restore")
        else:
            shown = client.call("accept_restore", parsed_args.revision)
        restore = shown["restore"]
        if restore is None:
            log.info("the database was not restored: there is nothing to accept")
            return COLUMNS, []
        log.warning("%s", shown["sentence"])
        if parsed_args.revision is None:
            log.warning(
                "nothing was changed: to accept it, run rtagent node accept-restore --revision %s",
                restore["revision"],
            )
        else:
            log.info("the database is accepted: claims are created again")
        return COLUMNS, [*_claims(restore["differences"]), *_orphans(shown["orphans"])]


def _claims(differences: Sequence[Mapping[str, Any]]) -> Iterator[Sequence[str]]:
    for each in differences:
        was, found = each["acknowledged"] or "ended", each["stored"] or "missing"
        yield "claim", each["claim_uuid"], each["owner_id"], was, found


def _orphans(orphans: Sequence[Mapping[str, Any]]) -> Iterator[Sequence[str]]:
    for each in orphans:
        runs = "running" if each["active"] else "shut off"
        yield "orphan", each["domain_uuid"], each["name"], "", runs
