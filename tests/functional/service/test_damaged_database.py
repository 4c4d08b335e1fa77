"""A start on a damaged database: it ends with the remedy, or sets the file aside."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from rtagent.virt.simulate import domain_xml, edit
from tests.servers.daemon import Daemon

EX_CONFIG = 78

GUEST = "11111111-2222-4333-8444-555555555555"


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    """A daemon that has run, on a host with a guest."""
    made = Daemon(tmp_path, "fake://")
    with edit(made.host_file) as world:
        world.add_domain(domain_xml(GUEST, vcpus=2, memory_mb=512))
    made.start().wait_ready()
    assert made.terminate() == 0
    yield made
    made.close()


def database(daemon: Daemon) -> Path:
    return daemon.directory / "rtagent.sqlite"


def damage(file: Path, table: str) -> bytes:
    """Overwrite the first page of a table. Return the damaged content."""
    with sqlite3.connect(file) as connection:
        query = "SELECT rootpage FROM sqlite_master WHERE name = ?"
        ((page,),) = connection.execute(query, (table,)).fetchall()
        ((size,),) = connection.execute("PRAGMA page_size").fetchall()
    content = bytearray(file.read_bytes())
    content[(page - 1) * size : (page - 1) * size + 100] = b"\xa5" * 100
    file.write_bytes(content)
    return bytes(content)


def test_damaged_file_ends_the_start_with_the_remedy_and_is_kept(daemon: Daemon):
    content, nonsense = damage(database(daemon), "claims"), b"not a database" * 1000
    for number, (written, what) in enumerate(
        [(nonsense, "file is not a database"), (content, "rtagent.sqlite is damaged")], 1
    ):
        database(daemon).write_bytes(written)
        daemon.start()
        assert daemon.wait() == EX_CONFIG
        assert what in daemon.last_lines()
        assert daemon.count_logged("rtagent db backup") == number
        assert daemon.count_logged("rtagentd --rebuild") == number
        assert database(daemon).read_bytes() == written

    daemon.start("--rebuild").wait_ready()
    (aside,) = daemon.directory.glob("rtagent.sqlite.damaged-*Z")
    assert aside.read_bytes() == content
    daemon.wait_logged(f"orphan {GUEST} ")
    assert [each["domain_uuid"] for each in daemon.read("orphans")["orphans"]] == [GUEST]
    (store,) = daemon.read("health")["checks"]["store"]
    assert store["status"] == "fail"
    assert "rtagent node accept-restore" in store["output"]
    assert daemon.terminate() == 0

    daemon.start("--rebuild").wait_ready()
    assert list(daemon.directory.glob("rtagent.sqlite.damaged-*Z")) == [aside]
    assert daemon.terminate() == 0


def test_damaged_rows_do_not_end_the_daemon(daemon: Daemon):
    with sqlite3.connect(database(daemon)) as connection:
        connection.execute("UPDATE compute_nodes SET topology = substr(topology, 1, 50)")
        connection.execute("UPDATE foreign_domains SET vcpus = 'x'")
        connection.execute("UPDATE services SET last_seen_up = '2026-01-01 00:00:61;x'")
    daemon.start().wait_ready()
    daemon.wait_logged("topology")
    daemon.wait_logged(f"foreign_domains {GUEST}: damaged (vcpus)")
    records = daemon.read("health")["checks"]["records"]
    assert records[0]["status"] == "warn"
    assert [each["vcpus"] for each in daemon.read("orphans")["orphans"]] == [2]
    assert daemon.terminate() == 0
