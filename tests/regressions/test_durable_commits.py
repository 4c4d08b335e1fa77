"""A claim that was answered is in the database after the server was killed.

An administrator had set synchronous_commit = off for the database, and 23 of 24 answered claims
were lost with the server.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import Engine

from rtagent.db import durability, migrate
from rtagent.db.engine import open_engine
from rtagent.db.store import SqlStore
from rtagent.errors import NotDurable, StoreUnavailable
from tests.servers import MariaDB, PostgreSQL
from tests.servers.daemon import Daemon, wait_until
from tests.support.stored_values import NODE, claim, created
from tests.support.stores import assert_stored, commit, enrolled

EX_CONFIG = 78
PARTS = ("durability", "heartbeat", "store")


@contextmanager
def opened(url: str, **options: bool) -> Iterator[Engine]:
    engine = open_engine(url, 30, **options)
    yield engine
    engine.dispose()


@contextmanager
def postgresql_setting(server: PostgreSQL, name: str, value: str) -> Iterator[None]:
    """Change a setting of the running server for the length of the block."""
    server.execute(f"ALTER SYSTEM SET {name} = {value}")
    server.execute("SELECT pg_reload_conf()")
    try:
        yield
    finally:
        server.execute(f"ALTER SYSTEM RESET {name}")
        server.execute("SELECT pg_reload_conf()")


@contextmanager
def mariadb_setting(server: MariaDB, name: str, value: str) -> Iterator[None]:
    server.execute(f"SET GLOBAL {name} = {value}")
    try:
        yield
    finally:
        server.execute(f"SET GLOBAL {name} = 1")


@pytest.fixture
def url(request: pytest.FixtureRequest, postgresql: PostgreSQL) -> str:
    """A database of PostgreSQL with the schema."""
    url = postgresql.create_database()
    with opened(url) as engine:
        migrate.sync(engine)
    return url


def test_killed_server_loses_no_commit_though_its_default_is_asynchronous(postgresql, url):
    database = url.rsplit("/", 1)[1]
    postgresql.execute(f"ALTER DATABASE {database} SET synchronous_commit = off")
    # Otherwise, the server itself writes the log before it is killed.
    with postgresql_setting(postgresql, "wal_writer_delay", "'10s'"), opened(url) as engine:
        store = SqlStore(engine)
        state = enrolled(store)
        for number in range(24):
            state = commit(store, state, created(claim(number)))
        postgresql.kill()
        postgresql.start()
        assert_stored(store.load(NODE.uuid), state)


def test_stricter_setting_of_the_administrator_stays(postgresql, url):
    database = url.rsplit("/", 1)[1]
    postgresql.execute(f"ALTER DATABASE {database} SET synchronous_commit = remote_apply")
    with opened(url) as engine, engine.connect() as connection:
        assert connection.exec_driver_sql("SHOW synchronous_commit").scalar() == "remote_apply"
    durability_faults(url, "")


@pytest.mark.parametrize("name", ["fsync", "full_page_writes"])
def test_postgresql_that_may_lose_commits_is_refused(postgresql, url, name):
    with postgresql_setting(postgresql, name, "off"):
        durability_faults(
            url,
            f"PostgreSQL may lose committed claims: {name} is off:"
            f" ALTER SYSTEM SET {name} = on; SELECT pg_reload_conf()",
        )
    durability_faults(url, "")


def test_unlogged_table_is_refused(url):
    with opened(url) as engine, engine.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE operations SET UNLOGGED")
    durability_faults(
        url,
        "PostgreSQL may lose committed claims: operations is unlogged:"
        " ALTER TABLE operations SET LOGGED",
    )


def test_mariadb_that_may_lose_commits_is_refused(mariadb):
    url = mariadb.create_database()
    with opened(url) as engine:
        migrate.sync(engine)
    durability_faults(url, "")
    name = "innodb_flush_log_at_trx_commit"
    with mariadb_setting(mariadb, name, "2"):
        durability_faults(
            url,
            f"MariaDB may lose committed claims: {name} is 2:"
            f" SET GLOBAL {name} = 1, and set it in the server's configuration file",
        )
    with opened(url) as engine, engine.begin() as connection:
        for change in ("DROP FOREIGN KEY fk_claim_events_node_uuid", "ENGINE = MyISAM"):
            connection.exec_driver_sql(f"ALTER TABLE claim_events {change}")
    durability_faults(
        url,
        "MariaDB may lose committed claims: the engine of table claim_events is MyISAM:"
        " ALTER TABLE claim_events ENGINE = InnoDB",
    )


def test_binary_log_of_mariadb_must_be_synced():
    """A server recovers from a crash what its binary log has."""
    with LoggingMariaDB() as server:
        url = server.create_database()
        durability_faults(
            url,
            "MariaDB may lose committed claims: sync_binlog is 0:"
            " SET GLOBAL sync_binlog = 1, and set it in the server's configuration file",
        )
        server.execute("SET GLOBAL sync_binlog = 1")
        durability_faults(url, "")


class LoggingMariaDB(MariaDB):
    """A server with a binary log."""

    def command(self) -> list[str]:
        return [*super().command(), "--log-bin", "--server-id=1"]


def durability_faults(url: str, faults: str) -> None:
    """Assert what is wrong with a database, and that a store is refused exactly because of it."""
    with opened(url) as engine:
        assert durability.faults(engine) == faults
        if not faults:
            durability.require(engine)
            return
        with pytest.raises(NotDurable) as refused:
            durability.require(engine)
        assert refused.value.message == faults
        with pytest.raises(StoreUnavailable) as refused_write:
            enrolled(SqlStore(engine))
        assert refused_write.value.message == faults
    with opened(url, require_durability=False) as engine:
        assert durability.faults(engine) == faults


def test_setting_that_changes_under_a_running_agent_stops_its_changes(postgresql, url, tmp_path):
    config = {"DEFAULT": {"report_interval": 1}}
    with Daemon(tmp_path, "fake://", database_url=url, config=config) as daemon:
        daemon.wait_ready()
        assert check(daemon, "durability") == ("pass", "")
        reserved = 1000

        def refuses() -> bool:
            nonlocal reserved
            reserved += 1
            daemon.configure({"DEFAULT": {"reserved_host_memory_mb": reserved}})
            daemon.reload()  # something to write
            return check(daemon, "store")[0] == "fail"

        with postgresql_setting(postgresql, "fsync", "off"):
            wait_until(lambda: check(daemon, "durability")[0] == "fail")
            assert "fsync is off: ALTER SYSTEM SET fsync = on" in check(daemon, "durability")[1]
            wait_until(refuses)
            assert "fsync is off: ALTER SYSTEM SET fsync = on" in check(daemon, "store")[1]
        wait_until(lambda: {check(daemon, part)[0] for part in PARTS} == {"pass"})
        wait_until(lambda: memory_used(daemon) == reserved)

        with postgresql_setting(postgresql, "fsync", "off"):
            daemon.terminate()
            daemon.start()
            assert daemon.wait() == EX_CONFIG
            assert "fsync is off: ALTER SYSTEM SET fsync = on" in daemon.last_lines()

            daemon.configure({"database": {"require_durability": False}})
            daemon.start()
            daemon.wait_ready()
            wait_until(lambda: check(daemon, "durability")[0] == "warn")
        wait_until(lambda: check(daemon, "durability") == ("pass", ""))


def check(daemon: Daemon, part: str) -> tuple[str, str]:
    """The status of a part, and the reason."""
    (found,) = daemon.read("health")["checks"].get(part, [{"status": ""}])
    return found["status"], found.get("output", "")


def memory_used(daemon: Daemon) -> int:
    used: int = daemon.read("nodes")["nodes"][0]["memory_mb_used"]
    return used
