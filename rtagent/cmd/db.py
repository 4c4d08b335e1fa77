"""rtagent db: the database's schema, a copy of it, and what may be forgotten."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from rtagent.cmd.columns import Nothing, Yes
from rtagent.cmd.listing import Act, List, Show
from rtagent.cmd.world import World
from rtagent.db import migrate
from rtagent.db.backup import backup
from rtagent.db.engine import Engine, open_engine, open_existing
from rtagent.db.nodes import SqlNodes
from rtagent.db.purge import purge_history
from rtagent.db.store import SqlStore

#: Seconds that one statement of a migration may take.
MIGRATION_TIMEOUT = 3600


def _existing(world: World) -> Engine:
    database = world.settings.database
    return open_existing(database.connection, database.operation_timeout)


class DbSync(Act):
    """Bring the database's schema to the one of this program"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--sql",
            action="store_true",
            help="Print the statements for an empty database instead; nothing is connected.",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        connection = self.world.settings.database.connection
        if parsed_args.sql:
            self.app.stdout.write(migrate.script(connection))
            return
        engine = open_engine(connection, MIGRATION_TIMEOUT)
        before = migrate.version(engine)
        migrate.sync(engine)
        done = "is already" if before == migrate.HEAD else "is now"
        self.app.stdout.write(f"The schema {done} {migrate.HEAD}.\n")


class DbVersion(Show):
    """Show the version of the database's schema, and the one of this program"""

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Any]]:
        found = migrate.version(_existing(self.world))
        return ("database", "program"), (Nothing(found), migrate.HEAD)


class DbCheck(Act):
    """Check that the database can be reached and has the schema of this program"""

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        migrate.check(_existing(self.world))
        self.app.stdout.write(f"The schema is {migrate.HEAD}, as it must be.\n")


class DbHistory(List):
    """List the versions of the schema, and which of them the database has"""

    nouns = "versions of the schema"

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        found = migrate.version(_existing(self.world))
        rows = (
            (revision.name, revision.what, Yes(found is not None and revision.name <= found))
            for revision in migrate.revisions()
        )
        return ("version", "description", "applied"), list(rows)


class DbBackup(Act):
    """Copy the embedded database to a file, also while the daemon runs"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("file", type=Path, help="It must not exist yet.")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        backup(_existing(self.world), parsed_args.file)
        self.app.stdout.write(f"The database is copied to {parsed_args.file}.\n")


class DbPurge(Act):
    """Forget operations and released claims that are older than [claims] operation_retention

    The daemon does the same for its own node; this does it for every node of the database. What
    happened to claims is kept, unless --history tells for how long.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--history",
            type=_days_ago,
            metavar="DAYS",
            help="Forget what happened to ended claims, too, when it is older than that.",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        engine = _existing(self.world)
        migrate.check(engine)
        now = datetime.now(UTC)
        before = now - timedelta(seconds=self.world.settings.claims.operation_retention)
        store = SqlStore(engine)
        gone = sum(store.purge(r.node.uuid, before) for r in SqlNodes(engine).records())
        if parsed_args.history is not None:
            gone += purge_history(engine, parsed_args.history)
        self.app.stdout.write(f"{gone} rows are gone.\n")


def _days_ago(text: str) -> datetime:
    """The time so many days ago."""
    try:
        days = float(text)
        then = datetime.now(UTC) - timedelta(days=days)
    except (ValueError, OverflowError) as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of days: {error}") from error
    if days < 0:
        raise argparse.ArgumentTypeError(f"{text!r}: must not be negative")
    return then
