"""Files of the embedded database: checked, set aside and removed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import Engine
from sqlalchemy.engine import make_url

from rtagent.db.backends import backend
from rtagent.db.last_backup import with_last_backup
from rtagent.db.transaction import Transactions
from rtagent.errors import StoreDamaged

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
