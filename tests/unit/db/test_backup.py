"""Backups, and the message about a damaged database, which names the last one."""

import sqlite3
from pathlib import Path

import pytest
from sqlalchemy import Engine

from rtagent.db.backup import SUFFIX, backup
from rtagent.db.engine import open_engine
from rtagent.db.restore import check_files
from rtagent.db.store import SqlStore
from rtagent.errors import RtAgentError, StoreDamaged
from tests.support.stored_values import claim, created
from tests.support.stores import assert_loads, commit, enrolled


def test_backup_has_the_rows_of_one_moment(engine: Engine, tmp_path: Path):
    store = SqlStore(engine)
    state = commit(store, enrolled(store), created(claim(1)))
    target = tmp_path / "copy.sqlite"
    backup(engine, target)
    commit(store, state, created(claim(2)))
    assert_loads(SqlStore(open_engine(f"sqlite:///{target}", 5)), state)
    assert target.stat().st_mode & 0o777 == 0o600


def test_backup_does_not_overwrite_a_file(engine: Engine, tmp_path: Path):
    target = tmp_path / "precious"
    target.write_text("precious")
    with pytest.raises(RtAgentError, match="exists"):
        backup(engine, target)
    assert target.read_text() == "precious"


@pytest.mark.parametrize(
    ("url", "tool"),
    [("postgresql+psycopg://h/d", "pg_dump"), ("mysql+pymysql://h/d", "mariadb-dump")],
)
def test_backup_of_a_server_names_its_own_tool(tmp_path: Path, url: str, tool: str):
    with pytest.raises(RtAgentError, match=tool):
        backup(open_engine(url, 5), tmp_path / "copy")


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """A database with two copies, the last one in ``last``."""
    file = tmp_path / "rtagent.sqlite"
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE t (a)")
    for name in ("first", "last"):
        backup(open_engine(f"sqlite:///{file}", 5), tmp_path / name)
    return file


def message(database: Path) -> str:
    database.write_bytes(b"damaged" * 1000)
    with pytest.raises(StoreDamaged) as caught:
        check_files(open_engine(f"sqlite:///{database}", 5))
    return caught.value.message


def test_the_last_copy_is_named_with_its_time(database: Path):
    assert f"(the last copy is {database.parent / 'last'}, of 2" in message(database)


def test_a_copy_that_is_gone_is_said_to_be_gone(database: Path):
    (database.parent / "last").unlink()
    assert f"(the last copy, {database.parent / 'last'}, cannot be read" in message(database)


@pytest.mark.parametrize("note", [b"", b"relative", b"/a\x1b[2J", b"\xff", b"/x" * 10**5])
def test_a_note_of_anything_else_does_no_harm(database: Path, note: bytes):
    Path(f"{database}{SUFFIX}").write_bytes(note)
    assert "\x1b" not in message(database)


def test_a_note_that_cannot_be_written_does_not_fail_the_backup(database: Path):
    Path(f"{database}{SUFFIX}").unlink()
    Path(f"{database}{SUFFIX}").mkdir()
    backup(open_engine(f"sqlite:///{database}", 5), database.parent / "third")
    assert "(the last copy" not in message(database)
