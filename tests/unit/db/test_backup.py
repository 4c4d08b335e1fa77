from pathlib import Path

import pytest
from sqlalchemy import Engine

from rtagent.db.backup import backup
from rtagent.db.engine import open_engine
from rtagent.db.store import SqlStore
from rtagent.errors import RtAgentError
from tests.unit.db.cases import commit, enrolled, holds
from tests.unit.db.values import claim, created


def test_the_copy_is_a_database_of_one_moment(engine: Engine, tmp_path: Path):
    store = SqlStore(engine)
    state = commit(store, enrolled(store), created(claim(1)))
    target = tmp_path / "copy.sqlite"
    backup(engine, target)
    commit(store, state, created(claim(2)))
    holds(SqlStore(open_engine(f"sqlite:///{target}", 5)), state)
    assert target.stat().st_mode & 0o777 == 0o600


def test_no_file_is_overwritten(engine: Engine, tmp_path: Path):
    target = tmp_path / "precious"
    target.write_text("precious")
    with pytest.raises(RtAgentError, match="exists"):
        backup(engine, target)
    assert target.read_text() == "precious"


@pytest.mark.parametrize(
    ("url", "tool"),
    [("postgresql+psycopg://h/d", "pg_dump"), ("mysql+pymysql://h/d", "mariadb-dump")],
)
def test_a_server_has_a_tool_of_its_own(tmp_path: Path, url: str, tool: str):
    with pytest.raises(RtAgentError, match=tool):
        backup(open_engine(url, 5), tmp_path / "copy")
