"""Replicas: a PostgreSQL server that follows another one, and can take its place."""

import os
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

import psycopg

from tests.servers.daemon import wait_until
from tests.servers.postgresql import PostgreSQL, _program
from tests.servers.server import as_user

_NAME = "chaos_replica"


class Replica(PostgreSQL):
    """A streaming replica of a running server, until `promote` makes it a server of its own."""

    def __init__(self, primary: PostgreSQL) -> None:
        super().__init__()
        self._primary = primary

    def prepare(self) -> None:
        if os.geteuid() == 0:
            shutil.chown(self.directory, "postgres", "postgres")
        self.run(
            *as_user("postgres"),
            _program("pg_basebackup"),
            f"--dbname=host=127.0.0.1 user=rtagent port={self._primary.port} "
            f"application_name={_NAME}",
            f"--pgdata={self._data}",
            "--checkpoint=fast",
            "--wal-method=stream",
            "--no-sync",
            "--write-recovery-conf",
        )

    def follow(self) -> None:
        """Let the primary acknowledge only what this replica has, from now on for ever.

        Returns when everything that was acknowledged before has arrived here, too.
        """
        configure(self._primary, synchronous_standby_names=_NAME)
        self._wait_synchronous()
        query = (
            "SELECT count(*) FROM pg_stat_replication WHERE application_name = %s"
            " AND sync_state = 'sync' AND flush_lsn >= %s::pg_lsn"
        )
        with connect(self._primary) as primary:
            (now,) = one(primary, "SELECT pg_current_wal_lsn()")
            wait_until(lambda: one(primary, query, _NAME, now) == (1,), 60)

    def _wait_synchronous(self) -> None:
        """Wait until a commit really waits for this replica: settings take effect later."""
        query = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
        with connect(self._primary) as primary, ThreadPoolExecutor() as pool:

            def waits() -> bool:
                return one(primary, query) != (0,)

            self.freeze()
            try:
                while not waits():
                    commit = pool.submit(
                        self._primary.execute, "SELECT pg_logical_emit_message(true, 'chaos', '')"
                    )
                    wait_until(partial(_either, commit.done, waits), 60)
            finally:
                self.thaw()

    def promote(self) -> None:
        """Become a server of its own. The primary must be dead."""
        self.execute("SELECT pg_promote(true, 60)")
        with connect(self) as connection:
            wait_until(lambda: one(connection, "SELECT pg_is_in_recovery()") == (False,), 60)


def configure(server: PostgreSQL, **settings: str | None) -> None:
    """Change settings of a running server. None: as it was started."""
    for name, value in settings.items():
        change = f"SET {name} = '{value}'" if value is not None else f"RESET {name}"
        server.execute(f"ALTER SYSTEM {change}")
    server.execute("SELECT pg_reload_conf()")


@contextmanager
def connect(server: PostgreSQL) -> Iterator[psycopg.Connection]:
    """Connect as administrator, outside any transaction."""
    connection = psycopg.connect(
        host="127.0.0.1",
        port=server.port,
        user="rtagent",
        dbname="postgres",
        autocommit=True,
        connect_timeout=10,
    )
    try:
        yield connection
    finally:
        connection.close()


def one(connection: psycopg.Connection, query: str, *values: object) -> tuple[object, ...]:
    """Return the only row of a query."""
    row = connection.execute(query.encode(), values).fetchone()
    assert row is not None
    return tuple(row)


def _either(*conditions: Callable[[], bool]) -> bool:
    return any(condition() for condition in conditions)
