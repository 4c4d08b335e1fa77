"""Put a backup of the embedded database in the place of the database."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from sqlalchemy import Engine
from sqlalchemy.engine import make_url

from rtagent.db import migrate
from rtagent.db.backends import backend
from rtagent.db.damaged_files import remove_files, set_aside
from rtagent.db.damaged_rows import damage
from rtagent.db.engine import open_engine
from rtagent.db.nodes import SqlNodes
from rtagent.errors import RtAgentError


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
        _sync(target.parent)
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
    engine = open_engine(f"sqlite:///{fresh}", timeout, require_durability=False)
    try:
        if migrate.version(engine) is None:
            raise RtAgentError(f"{source} is not a database of rtagent")
        migrate.sync(engine)
        if found := damage(engine):
            raise RtAgentError("\n".join((f"{source} is damaged: use another backup", *found)))
        _check_node(source, engine, node_uuid)
    finally:
        engine.dispose()


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


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
