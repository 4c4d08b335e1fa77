"""Replicas and volumes of databases."""

import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.chaos.world.mariadb_replica import LoggingMariaDB, MariaDBReplica
from tests.chaos.world.mariadb_replica import one as row
from tests.chaos.world.replica import Replica, connect, one
from tests.chaos.world.volume import Volume, mountable
from tests.servers import PostgreSQL

COUNT = "SELECT count(*) FROM acknowledged"


@pytest.fixture
def primary() -> Iterator[PostgreSQL]:
    """A server that a test may lose."""
    with PostgreSQL() as server:
        server.execute("CREATE TABLE acknowledged ()")
        yield server


def test_a_replica_has_what_was_acknowledged(primary: PostgreSQL):
    with Replica(primary) as replica:
        primary.execute("INSERT INTO acknowledged DEFAULT VALUES")
        replica.follow()
        primary.execute("INSERT INTO acknowledged DEFAULT VALUES")
        primary.kill()
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            replica.execute("INSERT INTO acknowledged DEFAULT VALUES")
        replica.promote()
        replica.execute("INSERT INTO acknowledged DEFAULT VALUES")  # and waits for no replica
        with connect(replica) as connection:
            assert one(connection, COUNT) == (3,)


def test_a_replica_of_mariadb_has_what_was_acknowledged():
    """A promoted replica is followed by another one."""
    rows = 1
    with LoggingMariaDB() as first:
        table = f"{first.create_database().rpartition('/')[2]}.acknowledged"
        first.execute(f"CREATE TABLE {table} (id INT)")
        first.execute(f"INSERT INTO {table} VALUES (1)")
        with MariaDBReplica(first) as second, MariaDBReplica(second) as third:
            for primary, replica in ((first, second), (second, third)):
                replica.follow()
                primary.execute(f"INSERT INTO {table} VALUES (1)")
                primary.kill()
                replica.promote()
                replica.execute(f"INSERT INTO {table} VALUES (1)")  # and waits for no replica
                rows += 2
                assert row(replica, f"SELECT count(*) AS number FROM {table}") == {"number": rows}


def test_a_commit_of_mariadb_waits_for_the_replica():
    with LoggingMariaDB() as primary, MariaDBReplica(primary) as replica:
        table = f"{primary.create_database().rpartition('/')[2]}.waiting"
        primary.execute(f"CREATE TABLE {table} (id INT)")
        replica.follow()
        replica.freeze()
        commit = threading.Thread(target=primary.execute, args=(f"INSERT INTO {table} VALUES (1)",))
        try:
            commit.start()
            commit.join(1)
            assert commit.is_alive()
        finally:
            replica.thaw()
        commit.join(60)
        assert not commit.is_alive()


@pytest.mark.skipif(not mountable(), reason="file systems can be mounted by root only")
def test_a_full_volume_has_no_free_space(tmp_path: Path):
    volume = Volume(tmp_path, 1)
    try:
        file = tmp_path / "file"
        file.write_bytes(b"before")
        volume.fill()
        with pytest.raises(OSError, match="No space left"):
            file.write_bytes(b"x" * 5000)
        volume.clear()
        file.write_bytes(b"x" * 5000)
    finally:
        volume.close()
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not mountable(), reason="file systems can be mounted by root only")
def test_what_a_volume_has_can_be_kept(tmp_path: Path):
    volume = Volume(tmp_path, 1)
    try:
        (tmp_path / "file").write_bytes(b"kept")
        volume.fill()
    finally:
        volume.close(keep=True)
    assert [(each.name, each.read_bytes()) for each in tmp_path.iterdir()] == [("file", b"kept")]
