"""A store behaves the same on every database."""

import pytest
from sqlalchemy import Engine

from tests.unit.db.cases import StoreCases
from tests.unit.db.test_store import SqlDatabase


class TestSqlStore(StoreCases):
    @pytest.fixture
    def database(self, engine: Engine) -> SqlDatabase:
        return SqlDatabase(engine)
