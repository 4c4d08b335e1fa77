from pathlib import Path

import pytest
from sqlalchemy import Engine, inspect, text

from rtagent.db import migrate
from rtagent.db.engine import open_engine
from rtagent.errors import SchemaMismatch, StoreUnavailable


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    return open_engine(f"sqlite:///{tmp_path}/db.sqlite", 5)


def set_version(engine: Engine, version: str) -> None:
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = :v"), {"v": version})


def test_sync_upgrades_an_empty_database_to_head(engine: Engine):
    assert migrate.version(engine) is None
    with pytest.raises(SchemaMismatch, match="rtagent db sync"):
        migrate.check(engine)
    migrate.sync(engine)
    migrate.sync(engine)
    assert migrate.version(engine) == migrate.HEAD
    migrate.check(engine)


def test_schema_of_a_release_before_the_first_one_is_refused(engine: Engine):
    migrate.sync(engine)
    set_version(engine, "0013")
    for refuse in (migrate.ready, migrate.check, migrate.sync):
        with pytest.raises(SchemaMismatch, match=r"is 0013, .* of release 0.2.0 first"):
            refuse(engine)
    assert migrate.version(engine) == "0013"


def set_oldest_writer(engine: Engine, revision: str) -> None:
    with engine.begin() as connection:
        statement = text("UPDATE schema_compatibility SET oldest_writer = :r")
        connection.execute(statement, {"r": revision})


def test_schema_of_the_next_release_is_used_and_left_as_it_is(engine: Engine):
    migrate.sync(engine)
    set_version(engine, "9998")
    set_oldest_writer(engine, migrate.HEAD)
    assert migrate.check(engine) == "9998"
    migrate.ready(engine)
    migrate.sync(engine)
    assert migrate.version(engine) == "9998"
    assert migrate.oldest_writer(engine) == migrate.HEAD


def test_failed_sync_changes_nothing(engine: Engine):
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE claims (x INTEGER)"))
    with pytest.raises(StoreUnavailable, match="node_uuid"):
        migrate.sync(engine)
    assert inspect(engine).get_table_names() == ["claims"]
