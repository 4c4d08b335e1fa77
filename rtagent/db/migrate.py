"""The version of the schema: read, check and upgrade it."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import as_file, files
from typing import TYPE_CHECKING, Any, TextIO

from sqlalchemy import Engine, inspect, text

from rtagent.db.engine import open_engine
from rtagent.db.transaction import Transactions
from rtagent.errors import SchemaMismatch
from rtagent.model.base import Value

if TYPE_CHECKING:
    from alembic.config import Config

#: The revision that this code reads and writes. Revisions are numbered, so that an older program
#: recognises a newer schema.
HEAD = "0007"


class Revision(Value, frozen=True, kw_only=True):
    """A revision of the schema.

    :ivar name: its number. :ivar summary: what it changes.
    """

    name: str
    summary: str


def version(engine: Engine) -> str | None:
    """Return the revision of the database, or None if it has no schema yet.

    :raises StoreUnavailable:
    """
    with Transactions(engine).query() as connection:
        if not inspect(connection).has_table("alembic_version"):
            return None
        found = connection.scalar(text("SELECT version_num FROM alembic_version"))
        return None if found is None else str(found)


def check(engine: Engine) -> None:
    """Check that the schema is the one that this code writes.

    :raises SchemaMismatch: the message names the remedy.
    :raises StoreUnavailable:
    """
    found = version(engine)
    if found == HEAD:
        return
    if found is None:
        raise SchemaMismatch("the database has no schema yet: run rtagent db sync")
    if found > HEAD:
        raise SchemaMismatch(
            f"the database's schema is {found}, newer than this program's {HEAD}: install the"
            " release that created it, or a later one"
        )
    raise SchemaMismatch(
        f"the database's schema is {found}, this program's is {HEAD}: run rtagent db sync"
    )


def sync(engine: Engine, revision: str = HEAD) -> None:
    """Upgrade the schema to a revision. On SQLite and PostgreSQL, all of it or nothing.

    :raises SchemaMismatch: the database's schema is newer than `HEAD`.
    :raises StoreUnavailable:
    """
    from alembic import command

    found = version(engine)
    if found is not None and found > HEAD:
        check(engine)
    with (
        Transactions(engine).write_repeatable() as connection,
        _config(connection=connection) as config,
    ):
        command.upgrade(config, revision)


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

    dialect = open_engine(url, 1).dialect.name
    output = io.StringIO()
    with _config(output, dialect=dialect) as config:
        command.upgrade(config, HEAD, sql=True)
    return output.getvalue()


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
