"""Column types that mean the same in SQLite, PostgreSQL, MariaDB and MySQL."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from sqlalchemy import BigInteger, DateTime, Integer, String, Text
from sqlalchemy.dialects import mysql
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator, TypeEngine

_MYSQL = ("mysql", "mariadb")

#: A key that the database makes. SQLite does so for INTEGER only.
Serial = BigInteger().with_variant(Integer(), "sqlite")

Uuid = String(36)
Name = String(255)
#: Short, so that a key of it and two names is not too long for MariaDB.
Kind = String(32)

#: MariaDB's TEXT ends at 64 KiB.
Document = Text().with_variant(mysql.MEDIUMTEXT(), *_MYSQL)


class UtcDateTime(TypeDecorator[datetime]):
    """An aware datetime, kept as UTC without a zone, to the microsecond."""

    impl = DateTime
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        # MariaDB's DATETIME cuts fractions off unless told.
        return mysql.DATETIME(fsp=6) if dialect.name in _MYSQL else DateTime()

    def bind_processor(self, dialect: Dialect) -> Callable[[datetime | None], Any] | None:
        # The same text as SQLAlchemy makes, in one step: a commit has five of these for each claim.
        return _text if dialect.name == "sqlite" else super().bind_processor(dialect)

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        return None if value is None else value.astimezone(UTC).replace(tzinfo=None)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        return None if value is None else value.replace(tzinfo=UTC)


# What happens at one moment is stamped with it in several rows.
@lru_cache(maxsize=256)
def _text(value: datetime | None) -> str | None:
    # The zone, "+00:00", is cut off.
    return None if value is None else value.astimezone(UTC).isoformat(" ", "microseconds")[:26]
