"""The differences between databases: one module for each, chosen by the URL."""

import functools
from collections.abc import Callable

from rtagent.db.backends.backend import Backend
from rtagent.db.backends.mysql import MySQL
from rtagent.db.backends.sqlite import SQLite
from rtagent.errors import ConfigError


def _postgresql() -> Backend:
    # The import of the driver takes long, so it is imported only for PostgreSQL.
    from rtagent.db.backends.postgresql import PostgreSQL

    return PostgreSQL()


#: By the scheme of the URL.
_BACKENDS: dict[str, Callable[[], Backend]] = {
    "sqlite": SQLite,
    "postgresql": _postgresql,
    "mysql": MySQL,
    "mariadb": MySQL,
}


@functools.cache
def backend(name: str) -> Backend:
    """Return the backend of a dialect, by name.

    :raises ConfigError: the database is not supported.
    """
    try:
        return _BACKENDS[name]()
    except KeyError:
        raise ConfigError(
            group="database",
            option="connection",
            value=f"{name}://...",
            rule="must begin with one of " + ", ".join(sorted(_BACKENDS)),
        ) from None


__all__ = ["Backend", "backend"]
