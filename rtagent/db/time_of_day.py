"""The time of day as all agents of a database see it: that of the database's server."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import ColumnElement, Dialect, literal, literal_column

from rtagent.db.backends import backend
from rtagent.db.utc_date_time import UtcDateTime


def database_now(dialect: Dialect, now: datetime) -> ColumnElement[datetime]:
    """Return an SQL expression for the time of the database's server.

    :param now: of this host, which is also the time of an embedded database.
    """
    expression = backend(dialect.name).now
    if expression is None:
        return literal(now, UtcDateTime())
    return literal_column(expression, UtcDateTime())
