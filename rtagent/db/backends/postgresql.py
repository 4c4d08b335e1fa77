"""PostgreSQL, with psycopg."""

import math
import time
from collections.abc import Sequence
from typing import Any, ClassVar, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.pq import TransactionStatus
from sqlalchemy import Engine, event
from sqlalchemy.exc import DBAPIError

from rtagent.db.backends.backend import (
    Backend,
    Code,
    Fault,
    Options,
    Query,
    refuse_dropped,
    server_seconds,
)
from rtagent.db.schema import metadata

_T = TypeVar("_T")

#: Not weaker than what the administrator has chosen: remote_apply also waits for the standby.
_SYNCHRONOUS = """
SELECT set_config('synchronous_commit', 'on', false)
WHERE current_setting('synchronous_commit') NOT IN ('on', 'remote_apply')
"""
#: A check's rows: what is not as it must be. A server empties unlogged tables after a crash.
_FAULTS = """
SELECT name, value FROM (VALUES
    ('synchronous_commit', current_setting('synchronous_commit')),
    ('fsync', current_setting('fsync')),
    ('full_page_writes', current_setting('full_page_writes'))
) AS settings (name, value) WHERE value NOT IN ('on', 'remote_apply')
UNION ALL
SELECT relname, 'unlogged' FROM pg_class WHERE relpersistence <> 'p' AND oid IN ({tables})
""".format(tables=", ".join(f"to_regclass('{table}')" for table in metadata.tables))


class _BoundedConnection(psycopg.Connection[Any]):
    """A connection whose waits for a transaction end at `deadline`.

    When the server process is frozen, its own time-outs do not work. TCP's do not either, as long
    as the server's operating system answers.
    """

    deadline: float | None = None

    def wait(self, gen: PQGen[_T], interval: float = 0.1, timeout: float | None = None) -> _T:
        if self.deadline is not None:
            timeout = max(0.0, self.deadline - time.monotonic())
        try:
            return super().wait(gen, interval, timeout)
        except psycopg.OperationalError as error:
            if self.pgconn.transaction_status != TransactionStatus.ACTIVE:
                raise
            self.close()  # a late answer must not be read as that of the next statement
            raise psycopg.OperationalError("the server did not answer in time") from error


class PostgreSQL(Backend):
    """Row locks. The isolation level is READ COMMITTED."""

    title = "PostgreSQL"
    name_lock = "SELECT pg_advisory_xact_lock(hashtextextended(:name, 0))"
    deadlocks: ClassVar[frozenset[Code]] = frozenset({"40001", "40P01"})
    # A statement, a lock, an idle transaction.
    timeouts: ClassVar[frozenset[Code]] = frozenset({"57014", "55P03", "25P03"})
    damaged: ClassVar[frozenset[Code]] = frozenset({"XX001", "XX002"})
    now = "timezone('UTC', clock_timestamp())"
    native_backup = "pg_dump --format=custom --file=FILE DATABASE"

    def arguments(self, timeout: float) -> Options:
        bounds = {
            "connect_timeout": math.ceil(timeout),
            "tcp_user_timeout": math.ceil(timeout * 1000),
        }
        return {"connect_args": bounds, "isolation_level": "READ COMMITTED"}

    def listen(self, engine: Engine, timeout: float) -> None:
        seconds = server_seconds(timeout)
        bounds = "; ".join(
            f"SET {name} = {int(bound * 1000)}"
            for name, bound in (
                ("statement_timeout", seconds),
                # Shorter than the statement's, so that the error names the lock.
                ("lock_timeout", server_seconds(seconds)),
                # An agent that is stopped within a transaction would keep its node's row locked.
                ("idle_in_transaction_session_timeout", seconds),
            )
        )

        @event.listens_for(engine, "do_connect")
        def connect(_: object, __: object, args: Any, kwargs: Any) -> _BoundedConnection:
            return _BoundedConnection.connect(*args, **kwargs)

        @event.listens_for(engine, "connect")
        def prepare(connection: _BoundedConnection, _: object) -> None:
            connection.autocommit = True
            connection.execute(bounds)
            connection.execute(_SYNCHRONOUS)
            connection.autocommit = False

        @event.listens_for(engine, "checkout")
        def check_out(connection: _BoundedConnection, _: object, __: object) -> None:
            refuse_dropped(connection.fileno())
            connection.deadline = time.monotonic() + timeout

        @event.listens_for(engine, "do_executemany")
        def execute_many(cursor: psycopg.Cursor[Any], sql: Any, rows: Any, _: object) -> bool:
            # The driver sends these in a pipeline, whose last message may be a Flush. A Flush stops
            # the server's timer for idle transactions, and only a further statement restarts it.
            cursor.executemany(sql, rows)
            cursor.connection.execute("")
            return True

    def faults(self, connection: Any, query: Query) -> Sequence[Fault]:
        return [
            Fault(setting=name, value=value, remedy=_remedy(name, value))
            for name, value in query(_FAULTS)
        ]

    def code(self, error: DBAPIError) -> Code:
        return getattr(error.orig, "sqlstate", None)


def _remedy(name: str, value: str) -> str:
    if value == "unlogged":
        return f"ALTER TABLE {name} SET LOGGED"
    return f"ALTER SYSTEM SET {name} = on; SELECT pg_reload_conf()"
