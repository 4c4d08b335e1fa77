"""rtagent db: the schema of the database, its backup and restoration, and the purge of old rows."""

import argparse
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from rtagent.cmd.base import List, Row, Rows, Show, Text, with_dry_run
from rtagent.cmd.client import Client
from rtagent.cmd.output import OrEmpty, YesNo
from rtagent.db import migrate
from rtagent.db.backup import backup
from rtagent.db.damaged_rows import accept, damage
from rtagent.db.engine import Engine, disposed, open_engine, open_existing
from rtagent.db.history import purge_expired, purge_history
from rtagent.db.node_records import SqlNodes
from rtagent.db.restore import check_files, restore
from rtagent.errors import RtAgentError
from rtagent.identity.locks import without_agent
from rtagent.identity.machine import ComputeId

#: Seconds that one statement of a migration may take.
MIGRATION_TIMEOUT = 3600
#: What the operator does, and what the agent does until then.
NEXT = """\
Start the agent. It counts all that runs. If the backup is older than what it has acknowledged, it
creates no claims and frees none before rtagent node accept-restore."""


class DbSync(Text):
    """Upgrade the database's schema to the version of this program."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--sql",
            action="store_true",
            help="Print the statements for an empty database, and connect to none.",
        )

    def take_action(self, parsed_args: argparse.Namespace) -> Row:
        connection = self.app.client.settings.database.connection
        if parsed_args.sql:
            return ("version", "sql"), (migrate.HEAD, migrate.script(connection))
        opened = open_engine(connection, MIGRATION_TIMEOUT, require_durability=False)
        with disposed(opened) as engine:
            before = migrate.version(engine)
            migrate.sync(engine)
            after = migrate.check(engine)
        changed = before != after
        message = f"The schema is {'now' if changed else 'already'} {after}."
        return ("version", "changed", "message"), (after, YesNo(changed), message)


class DbVersion(Show):
    """Show the version of the database, of this program, and of the oldest that may write."""

    def take_action(self, parsed_args: argparse.Namespace) -> Row:
        with _existing(self.app.client) as engine:
            found, oldest = migrate.version(engine), migrate.oldest_writer(engine)
        return ("database", "program", "oldest_writer"), (
            OrEmpty(found),
            migrate.HEAD,
            OrEmpty(oldest),
        )


class DbCheck(Text):
    """Check that the database is reachable, that this program may write to it, and for damage."""

    def take_action(self, parsed_args: argparse.Namespace) -> Row:
        with _existing(self.app.client) as engine:
            check_files(engine)
            schema = migrate.check(engine)
            found = damage(engine)
        if found:
            raise RtAgentError("\n".join(found))
        return ("version", "message"), (schema, f"The schema is {schema}; {_fitness(schema)}.")


class DbAccept(Text):
    """Accept what is left in damaged rows, of all nodes of the database.

    Stop the agents first: an agent that runs is fenced, and exits with 78. If there is a backup,
    restore it instead. Run db check before: it lists what may be missing or wrong. At its next
    start, each agent uses the rows as they are, and grants claims again.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        with_dry_run(parser, "accept")

    def take_action(self, parsed_args: argparse.Namespace) -> Row:
        with _existing(self.app.client) as engine:
            migrate.check(engine)
            found = damage(engine)
            if found and not parsed_args.dry_run:
                accept(engine)
        done = "Would be accepted:" if parsed_args.dry_run else "Accepted:"
        message = "\n".join((done, *found)) if found else "No row is damaged."
        return ("rows", "message"), (len(found), message)


class DbHistory(List):
    """List the versions of the schema, and which of them the database has."""

    nouns = "versions of the schema"

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        with _existing(self.app.client) as engine:
            found = migrate.version(engine)
        return ("version", "description", "applied"), [
            (revision.name, revision.summary, YesNo(found is not None and revision.name <= found))
            for revision in migrate.revisions()
        ]


class DbBackup(Text):
    """Copy the embedded database to a file, also while the daemon runs."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("file", type=Path, help="The new file. It must not exist yet.")

    def take_action(self, parsed_args: argparse.Namespace) -> Row:
        with _existing(self.app.client) as engine:
            backup(engine, parsed_args.file)
        message = f"The database is copied to {parsed_args.file}."
        return ("file", "message"), (str(parsed_args.file), message)


class DbRestore(Text):
    """Put a backup that db backup made in the place of the embedded database.

    Stop the agent first. The backup is checked and brought to the version of this program, and
    stays as it is. The database that it replaces is kept under another name.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("file", type=Path, help="The backup.")

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


class DbPurge(Text):
    """Delete operations and released claims that are older than [claims] operation_retention.

    The daemon does this for its own node; this command does it for all nodes of the database. The
    age of a record is the time for which its agent has run, so a wrong clock does no harm. The
    history of claims is kept, unless --history is given.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--history",
            type=_days,
            metavar="DAYS",
            help="Delete the history of ended claims that is older than this, too.",
        )
        with_dry_run(parser, "delete")

    def take_action(self, parsed_args: argparse.Namespace) -> Row:
        client = self.app.client
        retention, dry_run = client.settings.claims.operation_retention, parsed_args.dry_run
        with _existing(client) as engine:
            migrate.check(engine)
            nodes = [record.node.uuid for record in SqlNodes(engine).records()]
            rows = sum(purge_expired(engine, uuid, retention, dry_run) for uuid in nodes)
            if parsed_args.history is not None:
                rows += purge_history(engine, parsed_args.history, datetime.now(UTC), dry_run)
        done = "would be" if dry_run else "are"
        return ("rows", "message"), (rows, f"{rows} rows {done} deleted.")


def _fitness(schema: str) -> str:
    """Return what a schema that passed the check is for this program."""
    if schema == migrate.HEAD:
        return "that is this program's"
    return f"this program's is {migrate.HEAD}, and may still write"


def _existing(client: Client) -> AbstractContextManager[Engine]:
    """Open the database of the configuration, and close its connections at the end."""
    database = client.settings.database
    return disposed(open_existing(database.connection, database.operation_timeout))


def _days(text: str) -> timedelta:
    """Return a number of days."""
    try:
        days = float(text)
        age = timedelta(days=days)
        datetime.now(UTC) - age  # overflows for more days than there are
    except (ValueError, OverflowError) as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of days: {error}") from error
    if days < 0:
        raise argparse.ArgumentTypeError(f"{text!r}: must not be negative")
    return age
