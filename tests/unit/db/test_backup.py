from pathlib import Path

import pytest
from sqlalchemy import Engine

from rtagent.db.backup import backup
from rtagent.db.engine import open_engine
from rtagent.db.store import SqlStore
from rtagent.errors import RtAgentError
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
