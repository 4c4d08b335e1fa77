import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from rtagent.db import migrate
from rtagent.db.backup import backup
from rtagent.db.engine import open_engine
from rtagent.db.restore import restore
from rtagent.db.store import SqlStore
from rtagent.errors import RtAgentError
from tests.support.hosts import NOON, uid
from tests.support.stored_values import NODE, claim, created
from tests.support.stores import commit, enrolled


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """The database of an agent, with two claims; ``backup`` beside it has one of them."""
    file = tmp_path / "agent" / "rtagent.sqlite"
    file.parent.mkdir()
    engine = open_engine(f"sqlite:///{file}", 5)
    migrate.sync(engine)
    store = SqlStore(engine)
    state = commit(store, enrolled(store), created(claim(1)))
    backup(engine, tmp_path / "backup")
    commit(store, state, created(claim(2)))
    engine.dispose()
    return file


def put(source: Path, database: Path, node_uuid: str | None = NODE.uuid) -> list[Path]:
    return list(restore(source, f"sqlite:///{database}", 5, node_uuid, NOON))


def loaded(database: Path) -> list[str]:
    """The claims of a database."""
    engine = open_engine(f"sqlite:///{database}", 5)
    migrate.check(engine)
    stored = SqlStore(engine).load(NODE.uuid)
    engine.dispose()
    return sorted(each.uuid for each in stored.claims)


def test_restore_keeps_the_database_that_it_replaces(database: Path, tmp_path: Path):
    database.chmod(0o640)
    before = (tmp_path / "backup").read_bytes()
    (replaced,) = put(tmp_path / "backup", database)
    assert replaced == database.with_name("rtagent.sqlite.replaced-20260102T120000Z")
    assert loaded(replaced) == [claim(1).uuid, claim(2).uuid]
    assert loaded(database) == [claim(1).uuid]
    assert database.stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "backup").read_bytes() == before


def test_commits_in_the_log_beside_the_file_are_restored(database: Path, tmp_path: Path):
    source, ends = tmp_path / "killed", ("", "-wal")
    engine = open_engine(f"sqlite:///{database}", 5)
    store = SqlStore(engine)
    commit(store, enrolled(store), created(claim(3)))
    for end in ends:
        shutil.copy(f"{database}{end}", f"{source}{end}")
    engine.dispose()
    before = [Path(f"{source}{end}").read_bytes() for end in ends]
    put(source, database)
    assert loaded(database) == [claim(1).uuid, claim(2).uuid, claim(3).uuid]
    assert [Path(f"{source}{end}").read_bytes() for end in ends] == before


def test_restore_works_without_a_database(database: Path, tmp_path: Path):
    for file in database.parent.iterdir():
        file.unlink()
    assert put(tmp_path / "backup", database, None) == []
    assert loaded(database) == [claim(1).uuid]
    assert database.stat().st_mode & 0o777 == 0o600


def sql(*statements: str) -> Callable[[Path], None]:
    """Return what executes statements in the database of a file."""

    def execute(file: Path) -> None:
        with closing(sqlite3.connect(file)) as connection, connection:
            for statement in statements:
                connection.execute(statement)

    return execute


def garbage(file: Path) -> None:
    file.write_bytes(b"SQLite format 3\0" + b"x" * 10_000)


def torn(file: Path) -> None:
    content = file.read_bytes()
    file.write_bytes(content[:8192] + b"\xff" * 16384 + content[8192 + 16384 :])


VERSION = "UPDATE alembic_version SET version_num = "
NEXT = "UPDATE schema_compatibility SET oldest_writer = '9998'"


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (garbage, "backup: "),
        (torn, "backup: "),
        (sql("DROP TABLE alembic_version"), "is not a database of rtagent"),
        (sql("UPDATE claims SET vcpus = 9"), r"is damaged: use another backup\nclaims"),
        (sql(VERSION + "'0013'"), "is 0013, of a release before"),
        (sql(VERSION + "'9999'", NEXT), "newer than this program's"),
        (Path.unlink, "is not a file"),
    ],
)
def test_bad_backup_changes_nothing(
    database: Path, tmp_path: Path, spoil: Callable[[Path], None], message: str
):
    spoil(tmp_path / "backup")
    before = {file.name: file.read_bytes() for file in database.parent.iterdir()}
    with pytest.raises(RtAgentError, match=message):
        put(tmp_path / "backup", database)
    assert {file.name: file.read_bytes() for file in database.parent.iterdir()} == before


def test_backup_of_another_host_is_refused(database: Path, tmp_path: Path):
    with pytest.raises(
        RtAgentError, match=rf"another host: it has the node {NODE.uuid}, .* {uid(9)}"
    ):
        put(tmp_path / "backup", database, uid(9))


def test_server_has_tools_of_its_own(tmp_path: Path):
    with pytest.raises(RtAgentError, match="PostgreSQL has its own tools"):
        restore(tmp_path, "postgresql+psycopg://h/d", 5, None, datetime.now(UTC))
