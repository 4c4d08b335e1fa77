from pathlib import Path

import pytest
from sqlalchemy import Engine

from rtagent.db.engine import open_engine
from rtagent.db.schema import metadata
from tests.support.stores import Database, MemoryDatabase, SqlDatabase


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    """SQLite with the tables."""
    engine = open_engine(f"sqlite:///{tmp_path}/db.sqlite", 5)
    metadata.create_all(engine)
    return engine


@pytest.fixture(params=["memory", "sqlite"])
def database(request: pytest.FixtureRequest) -> Database:
    """Every kind of store that needs no server; tests/functional/db has the others."""
    if request.param == "memory":
        return MemoryDatabase()
    return SqlDatabase(request.getfixturevalue("engine"))
