"""The adapters of a scheduler."""

from collections.abc import Callable
from pathlib import Path

from rtagent.conf.settings import Settings
from rtagent.db import migrate
from rtagent.db.aggregate_rows import AggregateTable
from rtagent.db.engine import Engine, open_engine
from rtagent.db.restore import check_files
from rtagent.errors import IdentityError, RtAgentError
from rtagent.identity.locks import FileLock
from rtagent.model.base import Value

#: The embedded database of a scheduler, in the state directory.
FILE = "scheduler.sqlite"


class SchedulerDatabase(Value, frozen=True, kw_only=True):
    """:ivar shared: agents and other schedulers use it, too.
    :ivar close: closes every connection.
    """

    engine: Engine
    aggregates: AggregateTable
    shared: bool
    close: Callable[[], None]


def url(settings: Settings) -> str:
    """Return the URL of the database: ``[database] connection`` if that is a server. A file is of
    one daemon only, so the scheduler has one of its own.
    """
    connection = settings.database.connection
    if not connection.startswith("sqlite"):
        return connection
    return f"sqlite:///{settings.default.state_path}/{FILE}"


def database(settings: Settings) -> SchedulerDatabase:
    """Open the database. Create the schema if it is an empty embedded database.

    :raises StoreDamaged: its files are damaged.
    :raises SchemaMismatch: the schema is not that of this release. :raises StoreUnavailable:
    """
    options, where = settings.database, url(settings)
    engine = open_engine(
        where, options.operation_timeout, require_durability=options.require_durability
    )
    try:
        check_files(engine)
        migrate.ready(engine)
    except RtAgentError:
        engine.dispose()
        raise
    return SchedulerDatabase(
        engine=engine,
        aggregates=AggregateTable(engine),
        shared=where == options.connection,
        close=engine.dispose,
    )


def state_lock(settings: Settings) -> FileLock:
    """Return the lock of the state directory, which is made if it does not exist.

    :raises IdentityError: it cannot be made.
    """
    directory = Path(settings.default.state_path)
    try:
        directory.mkdir(mode=0o750, parents=True, exist_ok=True)
    except OSError as exc:
        raise IdentityError(f"{directory} cannot be made: {exc.strerror}") from exc
    return FileLock(
        directory / "scheduler.lock",
        remedy="Stop it, or give this one a [DEFAULT] state_path of its own",
        missing="create it, or set [DEFAULT] state_path",
        program="rtagent-scheduler",
    )
