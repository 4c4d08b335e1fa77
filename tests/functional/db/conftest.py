from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import Engine

from rtagent.db import migrate
from rtagent.db.engine import open_engine
from rtagent.db.schema import metadata
from tests.support.stores import Database, SqlDatabase


@pytest.fixture(scope="module", params=["sqlite", "postgresql", "mariadb"])
def empty_database(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[], str]:
    """Makes databases of one kind and returns their URLs."""

    def make() -> str:
        if request.param == "sqlite":
            return f"sqlite:///{tmp_path_factory.mktemp('database')}/db.sqlite"
        url: str = request.getfixturevalue(f"{request.param}_server").create_database()
        return url

    return make


@pytest.fixture(scope="module")
def migrated(empty_database: Callable[[], str]) -> Iterator[Engine]:
    """An engine on a database with the schema; the tests of a module share it."""
    engine = open_engine(empty_database(), 30)
    migrate.sync(engine)
    yield engine
    engine.dispose()


@pytest.fixture
def engine(migrated: Engine) -> Engine:
    """The same engine, with all tables empty."""
    with migrated.begin() as connection:
        for table in reversed(metadata.sorted_tables):
            connection.execute(table.delete())
    return migrated


@pytest.fixture
def database(engine: Engine) -> Database:
    return SqlDatabase(engine)
