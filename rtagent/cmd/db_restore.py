"""rtagent db restore: the embedded database, from a backup."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from pathlib import Path

from rtagent.cmd.base import Row, Text
from rtagent.db.restore import restore
from rtagent.identity.locks import without_agent
from rtagent.identity.machine import ComputeId

#: What the operator does, and what the agent does until then.
NEXT = """\
Start the agent. It counts all that runs. If the backup is older than what it has acknowledged, it
creates no claims and frees none before rtagent node accept-restore."""


class DbRestore(Text):
    """Put a backup that db backup made in the place of the embedded database.

    Stop the agent first. The backup is checked and brought to the version of this program, and
    stays as it is. The database that it replaces is kept under another name.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("file", type=Path, help="The backup.")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Row:
        settings, file = self.app.client.settings, parsed_args.file
        database, state_path = settings.database, settings.default.state_path
        with without_agent(state_path):
            replaced = restore(
                file,
                database.connection,
                database.operation_timeout,
                ComputeId(state_path).read(),
                datetime.now(UTC),
            )
        kept = str(replaced[0]) if replaced else ""
        was = f" The database that was there is {kept}." if kept else ""
        message = f"The database is restored from {file}.{was}\n{NEXT}"
        return ("file", "replaced", "message"), (str(file), kept, message)
