from collections.abc import Iterator

import pytest
from sqlalchemy import Engine

from rtagent.db import migrate
from rtagent.db.engine import open_engine
from rtagent.db.schema import metadata


@pytest.fixture(scope="module", params=["sqlite", "postgresql", "mariadb"])
def migrated(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Engine]:
    """An engine on a database with the schema; the tests of a module share it."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path_factory.mktemp('database')}/db.sqlite"
    else:
        url = request.getfixturevalue(f"{request.param}_server").create_database()
    engine = open_engine(url, 5)
    migrate.sync(engine)
    yield engine
    engine.dispose()


@pytest.fixture
def engine(migrated: Engine) -> Engine:
    """The same, with nothing in its tables."""
    with migrated.begin() as connection:
        for table in reversed(metadata.sorted_tables):
            connection.execute(table.delete())
    return migrated
