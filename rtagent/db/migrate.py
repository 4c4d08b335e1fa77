"""The version of the schema: read, check and upgrade it.

The programs of two releases that follow each other use one database at the same time. A migration
therefore leaves in place whatever the release before it reads or writes: it adds tables, and
columns that are nullable or have a default of the server. What a release no longer uses is removed
by the next one. `sync` records the oldest program that may still write; an older one refuses.

Rows keep their form for the same reason: each of the two releases reads what the other writes. A
release that needs another form reads both and still writes the old one. The next release writes the
new one, and each agent rewrites the rows of its node when it enrolls. No command converts rows: an
agent that runs has them in memory, and would write them again.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import as_file, files
from typing import TYPE_CHECKING, Any, TextIO

from sqlalchemy import Connection, Engine, delete, insert, inspect, select, text

from rtagent.db.engine import open_engine
from rtagent.db.schema import schema_compatibility
from rtagent.db.transaction import Transactions
from rtagent.errors import SchemaMismatch
from rtagent.model.base import Value

if TYPE_CHECKING:
    from alembic.config import Config

#: The revision that this code reads and writes. Revisions are numbered, so that an older program
#: recognises a newer schema.
HEAD = "0014"

#: `HEAD` of the release before this one. Its programs may write to a database of this release.
OLDEST = "0014"

#: The first revision, which has the tables of this release. Older databases have no path to it.
BASE, FIRST_RELEASE = "0014", "0.2.0"

#: Tables that show that a database is another service's, by the name of its database.
FOREIGN = {
    "Nova": ("instances", "instance_extra"),
    "the API of Nova": ("cell_mappings", "host_mappings"),
    "Placement": ("resource_providers", "resource_classes"),
}


class Revision(Value, frozen=True, kw_only=True):
    """A revision of the schema.

    :ivar name: its number. :ivar summary: what it changes.
    """

    name: str
    summary: str


def version(engine: Engine) -> str | None:
    """Return the revision of the database, or None if it has no schema yet.

    :raises SchemaMismatch: it is the database of another service, as when a ``nova.conf`` is used
        as it is.
    :raises StoreUnavailable:
    """
    with Transactions(engine).query() as connection:
        for service, tables in FOREIGN.items():
            if all(inspect(connection).has_table(table) for table in tables):
                raise SchemaMismatch(
                    f"[database] connection names the database of {service}: give the agent a"
                    " database of its own"
                )
        if not inspect(connection).has_table("alembic_version"):
            return None
        found = connection.scalar(text("SELECT version_num FROM alembic_version"))
        return None if found is None else str(found)


def oldest_writer(engine: Engine) -> str | None:
    """Return the revision that a program must know in order to write to the database. None if the
    database does not record it.

    :raises StoreUnavailable:
    """
    with Transactions(engine).query() as connection:
        if not inspect(connection).has_table(schema_compatibility.name):
            return None
        return connection.scalar(select(schema_compatibility.c.oldest_writer))


def check(engine: Engine) -> str:
    """Check that this program may write to the database. Return the revision of the schema: `HEAD`,
    or that of the next release.

    :raises SchemaMismatch: the message names the remedy.
    :raises StoreUnavailable:
    """
    found = version(engine)
    if found is None:
        raise SchemaMismatch("the database has no schema yet: run rtagent db sync")
    _refuse_older_than_base(found)
    if found < HEAD:
        raise SchemaMismatch(
            f"the database's schema is {found}, this program's is {HEAD}: run rtagent db sync"
        )
    if found > HEAD:
        oldest = oldest_writer(engine)
        if oldest is None or oldest > HEAD:
            raise SchemaMismatch(
                f"the database's schema is {found}, newer than this program's {HEAD} by more than"
                " one release: install the release that created it, or the one before that"
            )
    return found


def sync(engine: Engine) -> None:
    """Upgrade the schema to `HEAD`. On SQLite and PostgreSQL, all of it or nothing. A schema of
    the next release is left as it is.

    :raises SchemaMismatch: the database's schema is newer, or older than `BASE`.
    :raises StoreUnavailable:
    """
    from alembic import command

    found = version(engine)
    if found is not None:
        _refuse_older_than_base(found)
        if found > HEAD:
            check(engine)
            return
    with (
        Transactions(engine).write_repeatable() as connection,
        _config(connection=connection) as config,
    ):
        # MariaDB commits at each migration: an older program is refused before the first of them.
        _record_oldest(connection)
        command.upgrade(config, HEAD)
        _record_oldest(connection)


def _refuse_older_than_base(found: str) -> None:
    if found < BASE:
        raise SchemaMismatch(
            f"the database's schema is {found}, of a release before {FIRST_RELEASE}: run rtagent db"
            f" sync of release {FIRST_RELEASE} first"
        )


def _record_oldest(connection: Connection) -> None:
    """Record `OLDEST`, if the schema is new enough to have a place for it."""
    if inspect(connection).has_table(schema_compatibility.name):
        connection.execute(delete(schema_compatibility))
        connection.execute(insert(schema_compatibility).values(oldest_writer=OLDEST))


def ready(engine: Engine) -> None:
    """Prepare the database at the start of a daemon: create the schema of an empty SQLite database,
    and check that of any other.

    :raises SchemaMismatch:
    :raises StoreUnavailable:
    """
    if engine.dialect.name == "sqlite" and version(engine) is None:
        sync(engine)
    check(engine)


def script(url: str) -> str:
    """Return the statements of `sync` on an empty database, for an administrator to run.

    :param url: the URL of the database. No connection is made.
    :raises ConfigError:
    """
    from alembic import command

    dialect = open_engine(url, 1).dialect
    output = io.StringIO()
    with _config(output, dialect=dialect.name) as config:
        command.upgrade(config, HEAD, sql=True)
    record = insert(schema_compatibility).values(oldest_writer=OLDEST)
    statement = record.compile(dialect=dialect, compile_kwargs={"literal_binds": True})
    return f"{output.getvalue()}{statement};\n\n"


def revisions() -> list[Revision]:
    """Return all revisions of the schema that this program has, oldest first."""
    from alembic.script import ScriptDirectory

    with _config() as config:
        scripts = reversed(list(ScriptDirectory.from_config(config).walk_revisions()))
        return [Revision(name=script.revision, summary=script.doc) for script in scripts]


@contextmanager
def _config(output: TextIO | None = None, **attributes: Any) -> Iterator[Config]:
    from alembic.config import Config

    with as_file(files("rtagent.migrations")) as location:
        config = Config(output_buffer=output, attributes=attributes)
        config.set_main_option("script_location", str(location).replace("%", "%%"))
        yield config
