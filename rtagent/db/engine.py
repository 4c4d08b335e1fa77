"""Open a database engine on which every wait is bounded."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Engine, create_engine
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError

from rtagent.db import durability
from rtagent.db.backends import backend
from rtagent.errors import ConfigError, StoreUnavailable

#: The number of connections that stay open, and of further ones under load. Commits use one at a
#: time, heartbeats one, and reads of operations one per RPC thread.
POOL_SIZE = 4
POOL_OVERFLOW = 16

#: The database in a URL with which SQLite writes no file.
IN_MEMORY = (None, "", ":memory:")


def open_engine(url: str, operation_timeout: float, *, require_durability: bool = True) -> Engine:
    """Return an engine for a SQLAlchemy URL, for use from any thread. It connects on first use.

    :param operation_timeout: seconds: the bound of a connect, of the wait for a pooled connection,
        of each statement and of each lock.
    :param require_durability: refuse to write with settings that may lose what is committed.
    :raises ConfigError: the URL is invalid, or the database is not supported.
    """
    parsed = _parse(url)
    kind = backend(parsed.get_backend_name())
    try:
        engine = create_engine(
            parsed,
            **kind.arguments(operation_timeout),
            pool_size=POOL_SIZE,
            max_overflow=POOL_OVERFLOW,
            pool_timeout=operation_timeout,
            # Reuse the most recent connection: the others may time out on the server.
            pool_use_lifo=True,
        )
    except ImportError as error:
        rule = f"its driver is missing ({error}): use mysql+pymysql:// or postgresql+psycopg://"
        raise _wrong(url, rule) from error
    kind.listen(engine, operation_timeout)
    if require_durability:
        durability.guard(engine, kind)
    return engine


def open_existing(url: str, operation_timeout: float) -> Engine:
    """Return an engine for an operator's command: never create an SQLite database, and write
    whatever the settings of the server are.

    :raises StoreUnavailable: the file does not exist.
    """
    engine = open_engine(url, operation_timeout, require_durability=False)
    name = engine.url.database
    if engine.dialect.name == "sqlite" and not (name and Path(name).exists()):
        raise StoreUnavailable(f"{name} does not exist: rtagentd creates it at its first start")
    return engine


@contextmanager
def disposed(engine: Engine) -> Iterator[Engine]:
    """Close the connections of an engine at the end of the block."""
    try:
        yield engine
    finally:
        engine.dispose()


def _parse(url: str) -> URL:
    try:
        parsed = make_url(url)
        parsed.get_dialect()
    except (ArgumentError, NoSuchModuleError, ValueError) as error:  # ValueError: a bad port
        raise _wrong(url, "must be an SQLAlchemy URL") from error
    if parsed.get_backend_name() == "sqlite" and parsed.database in IN_MEMORY:
        raise _wrong(url, "must name a file: a database in memory is lost with the process")
    return parsed


def _wrong(url: str, rule: str) -> ConfigError:
    shown = url.partition("://")[0] + "://..."  # the rest may contain a password
    return ConfigError(group="database", option="connection", value=shown, rule=rule)


__all__ = ["Engine", "disposed", "open_engine", "open_existing"]
