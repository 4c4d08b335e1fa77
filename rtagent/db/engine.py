"""An engine whose every wait is bounded."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Engine, create_engine
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError

from rtagent.db.backends import backend
from rtagent.errors import ConfigError, StoreUnavailable

#: Connections kept open, and how many more a rush may open: commits use one at a time, heartbeats
#: one, and reads of operations one per RPC thread.
POOL_SIZE = 4
POOL_OVERFLOW = 16

#: What a URL names where SQLite writes nothing.
IN_MEMORY = (None, "", ":memory:")


def open_engine(url: str, operation_timeout: float) -> Engine:
    """An engine for a SQLAlchemy URL, to be used from any thread. Connects when first used.

    :param operation_timeout: seconds: the bound of a connect, of waiting for a pooled connection,
        of each statement and of each lock.
    :raises ConfigError: the URL is not one, or not of a database that is supported.
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
            # The last one used is the next one used: the others may be closed by whoever tidies up.
            pool_use_lifo=True,
        )
    except ImportError as error:
        rule = f"its driver is not there ({error}): write mysql+pymysql:// or postgresql+psycopg://"
        raise _wrong(url, rule) from error
    kind.listen(engine, operation_timeout)
    return engine


def open_existing(url: str, operation_timeout: float) -> Engine:
    """The same, but that it does not make an SQLite database where there is none.

    :raises StoreUnavailable: its file does not exist.
    """
    engine = open_engine(url, operation_timeout)
    name = engine.url.database
    if engine.dialect.name == "sqlite" and not (name and Path(name).exists()):
        raise StoreUnavailable(f"{name} does not exist: has rtagentd ever run here?")
    return engine


def _parse(url: str) -> URL:
    try:
        parsed = make_url(url)
        parsed.get_dialect()
    except (ArgumentError, NoSuchModuleError, ValueError) as error:  # the last: of the port
        raise _wrong(url, "must be an SQLAlchemy URL") from error
    if parsed.get_backend_name() == "sqlite" and parsed.database in IN_MEMORY:
        raise _wrong(url, "must name a file: what is in memory only is lost with the process")
    return parsed


def _wrong(url: str, rule: str) -> ConfigError:
    shown = url.partition("://")[0] + "://..."  # the rest may hold a password
    return ConfigError(group="database", option="connection", value=shown, rule=rule)


__all__ = ["Engine", "open_engine", "open_existing"]
