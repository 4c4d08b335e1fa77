"""A store behaves the same on every database."""

import pytest
from sqlalchemy import Engine

from tests.unit.db.cases import StoreCases
from tests.unit.db.move_cases import EvacuationCases, MoveCases
from tests.unit.db.test_store import SqlDatabase


class TestSqlStore(StoreCases, MoveCases, EvacuationCases):
    @pytest.fixture
    def database(self, engine: Engine) -> SqlDatabase:
        return SqlDatabase(engine)
