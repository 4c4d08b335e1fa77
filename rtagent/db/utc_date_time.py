"""UtcDateTime: a column type for moments that means the same in every database."""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from sqlalchemy import DateTime
from sqlalchemy.dialects import mysql
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator, TypeEngine

_MYSQL = ("mysql", "mariadb")


class UtcDateTime(TypeDecorator[datetime]):
    """An aware datetime, stored as UTC without a time zone, with microseconds."""

    impl = DateTime
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        # By default MariaDB's DATETIME drops fractions of a second.
        return mysql.DATETIME(fsp=6) if dialect.name in _MYSQL else DateTime()

    def bind_processor(self, dialect: Dialect) -> Callable[[datetime | None], Any] | None:
        # The text that SQLAlchemy makes, in one step: a commit has five of these for each claim.
        return _sqlite_text if dialect.name == "sqlite" else super().bind_processor(dialect)

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        return None if value is None else value.astimezone(UTC).replace(tzinfo=None)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        return None if value is None else value.replace(tzinfo=UTC)


# Several rows of one commit have the same timestamp.
@lru_cache(maxsize=256)
def _sqlite_text(value: datetime | None) -> str | None:
    # Without the time zone "+00:00".
    return None if value is None else value.astimezone(UTC).isoformat(" ", "microseconds")[:26]
