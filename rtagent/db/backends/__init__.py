"""What differs from one database to another: one module each, chosen by the URL."""

from __future__ import annotations

from rtagent.db.backends.backend import Backend
from rtagent.db.backends.mysql import MySQL
from rtagent.db.backends.postgresql import PostgreSQL
from rtagent.db.backends.sqlite import SQLite
from rtagent.errors import ConfigError

#: By the name that a URL begins with.
BACKENDS: dict[str, Backend] = {
    "sqlite": SQLite(),
    "postgresql": PostgreSQL(),
    "mysql": MySQL(),
    "mariadb": MySQL(),
}


def backend(name: str) -> Backend:
    """The backend of a dialect's name.

    :raises ConfigError: it is none of ours.
    """
    try:
        return BACKENDS[name]
    except KeyError:
        raise ConfigError(
            group="database",
            option="connection",
            value=f"{name}://...",
            rule="must begin with one of " + ", ".join(sorted(BACKENDS)),
        ) from None


__all__ = ["BACKENDS", "Backend", "backend"]
