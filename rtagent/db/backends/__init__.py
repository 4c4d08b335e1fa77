"""What differs from one database to another: one module each, chosen by the URL."""

from __future__ import annotations

import functools
from collections.abc import Callable

from rtagent.db.backends.backend import Backend
from rtagent.db.backends.mysql import MySQL
from rtagent.db.backends.sqlite import SQLite
from rtagent.errors import ConfigError


def _postgresql() -> Backend:
    # Its driver takes long to import: only who uses it waits.
    from rtagent.db.backends.postgresql import PostgreSQL

    return PostgreSQL()


#: By the name that a URL begins with.
_BACKENDS: dict[str, Callable[[], Backend]] = {
    "sqlite": SQLite,
    "postgresql": _postgresql,
    "mysql": MySQL,
    "mariadb": MySQL,
}


@functools.cache
def backend(name: str) -> Backend:
    """The backend of a dialect's name.

    :raises ConfigError: it is none of ours.
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
