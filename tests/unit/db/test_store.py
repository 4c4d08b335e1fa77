from pathlib import Path

import pytest
from sqlalchemy import Engine

from rtagent.db.engine import open_engine
from rtagent.db.registry import SqlServiceRegistry
from rtagent.db.schema import metadata
from rtagent.db.store import SqlStore
from rtagent.ports import ServiceRegistry, Store
from tests.unit.db.cases import StoreCases


class SqlDatabase:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def store(self) -> Store:
        return SqlStore(self._engine)

    def registry(self) -> ServiceRegistry:
        return SqlServiceRegistry(self._engine)


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    engine = open_engine(f"sqlite:///{tmp_path}/db.sqlite", 5)
    metadata.create_all(engine)
    return engine


class TestSqlStore(StoreCases):
    @pytest.fixture
    def database(self, engine: Engine) -> SqlDatabase:
        return SqlDatabase(engine)
