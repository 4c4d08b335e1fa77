"""The files of the embedded database: checked, set aside, removed, and replaced by a backup."""

import os
import shutil
import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import Engine
from sqlalchemy.engine import make_url

from rtagent.db import migrate
from rtagent.db.backends import backend
from rtagent.db.backup import with_last_backup
from rtagent.db.damaged_rows import damage
from rtagent.db.engine import disposed, open_engine
from rtagent.db.node_records import SqlNodes
from rtagent.db.transaction import Transactions
from rtagent.errors import RtAgentError, StoreDamaged
from rtagent.identity.locks import sync_directory

#: The files of an SQLite database, by the ends of their names.
_ENDS = ("", "-wal", "-shm")


def check_files(engine: Engine) -> None:
    """Run the database's own check of its files. A server does that by itself.

    :raises StoreDamaged: the message names what is damaged, and the remedy.
    :raises StoreUnavailable:
    """
    kind = backend(engine.dialect.name)
    if kind.check is None:
        return
    with Transactions(engine).query() as connection:
        faults = connection.exec_driver_sql(kind.check).scalars().all()
    if faults != ["ok"]:
        listed = "; ".join(str(fault).replace("\n", "; ") for fault in faults)
        remedy = with_last_backup(kind.restore, engine.url.database)
        raise StoreDamaged(f"{engine.url.database} is damaged: {listed}: {remedy}")


def set_aside(url: str, now: datetime, why: str = "damaged") -> Sequence[Path]:
    """Rename the files of an embedded database, so that a start creates a new one. Nothing is
    overwritten. Return the new names; none if the database is on a server.

    The database must be closed.

    :param why: a word of the new names.
    """
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite" or not parsed.database:
        return ()
    file = Path(parsed.database).resolve()
    first = f"{file.name}.{why}-{now.astimezone(UTC):%Y%m%dT%H%M%SZ}"
    names = (first, *(f"{first}-{number}" for number in range(1, 1000)))
    free = next(name for name in names if not file.with_name(name).exists())
    renamed = []
    for end in _ENDS:
        old, new = file.with_name(file.name + end), file.with_name(free + end)
        if old.exists():
            old.rename(new)
            renamed.append(new)
    return renamed


def remove_files(file: Path) -> None:
    """Remove the files of an embedded database, if there are any."""
    for end in _ENDS:
        file.with_name(file.name + end).unlink(missing_ok=True)


def restore(
    source: Path, url: str, timeout: float, node_uuid: str | None, now: datetime
) -> Sequence[Path]:
    """Check a backup, upgrade a copy of it to the schema of this program, and make that the
    database. Return the new names of the files that it replaces. Nothing is changed before all
    checks have passed.

    The agent must not run.

    :param url: of the database. :param timeout: seconds for one statement.
    :param node_uuid: of this host's node, or None if the host has none yet.
    :raises RtAgentError: the backup is damaged, of another host, or of a later release; or the
        database is on a server.
    """
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite":
        title = backend(parsed.get_backend_name()).title
        raise RtAgentError(f"{title} has its own tools to restore a database: use these")
    target = Path(str(parsed.database)).resolve()
    fresh = target.with_name(f"{target.name}.restoring")
    remove_files(fresh)
    try:
        _copy(source, fresh)
        _upgrade(source, fresh, timeout, node_uuid)
        _own(fresh, target)
        replaced = set_aside(url, now, "replaced")
        fresh.rename(target)
        sync_directory(target.parent)
    except OSError as error:
        raise RtAgentError(f"{error.filename or fresh}: {error.strerror}") from error
    finally:
        remove_files(fresh)
    return replaced


def _copy(source: Path, fresh: Path) -> None:
    """Copy the database and check the copy's pages."""
    if not source.is_file():
        raise RtAgentError(f"{source} is not a file")
    # Nothing is written to the backup's directory, which may be on a read-only medium.
    # The file of an agent that was killed has its last commits in the log of the same directory.
    real = source.resolve()
    for end in ("", "-wal"):
        file = real.with_name(real.name + end)
        if file.exists():
            _copy_file(file, fresh.with_name(fresh.name + end))
    copy = sqlite3.connect(fresh)
    try:
        copy.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        faults = copy.execute("PRAGMA integrity_check").fetchone()[0]
        if faults != "ok":
            raise sqlite3.DatabaseError(f"it is damaged: {faults}")
    except sqlite3.Error as error:
        raise RtAgentError(f"{source}: {error}") from error
    finally:
        copy.close()


def _copy_file(source: Path, target: Path) -> None:
    os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    shutil.copyfile(source, target)


def _upgrade(source: Path, fresh: Path, timeout: float, node_uuid: str | None) -> None:
    """Check the rows of the copy, with the schema of this program."""
    opened = open_engine(f"sqlite:///{fresh}", timeout, require_durability=False)
    with disposed(opened) as engine:
        if migrate.version(engine) is None:
            raise RtAgentError(f"{source} is not a database of rtagent")
        migrate.sync(engine)
        if found := damage(engine):
            raise RtAgentError("\n".join((f"{source} is damaged: use another backup", *found)))
        _check_node(source, engine, node_uuid)


def _check_node(source: Path, engine: Engine, node_uuid: str | None) -> None:
    found = [record.node.uuid for record in SqlNodes(engine).records()]
    if node_uuid is not None and node_uuid not in found:
        raise RtAgentError(
            f"{source} is of another host: it has the node {', '.join(found) or 'of no host'},"
            f" and the node of this host is {node_uuid}"
        )


def _own(fresh: Path, target: Path) -> None:
    """Give the copy the mode of the file that it replaces, and the owner of its directory."""
    if target.exists():
        fresh.chmod(target.stat().st_mode & 0o777)
    directory = target.parent.stat()
    if os.geteuid() == 0:
        os.chown(fresh, directory.st_uid, directory.st_gid)
