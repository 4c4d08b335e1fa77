from pathlib import Path

import pytest
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, inspect, text

import rtagent.migrations
from rtagent.db import migrate
from rtagent.db.engine import open_engine
from rtagent.db.schema import metadata
from rtagent.errors import ConfigError, SchemaMismatch, StoreUnavailable


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    return open_engine(f"sqlite:///{tmp_path}/db.sqlite", 5)


def set_version(engine: Engine, version: str) -> None:
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = :v"), {"v": version})


def test_head_is_the_newest_migration():
    assert rtagent.migrations.__file__ is not None
    scripts = ScriptDirectory(str(Path(rtagent.migrations.__file__).parent))
    assert scripts.get_heads() == [migrate.HEAD]


def test_sync_upgrades_an_empty_database_to_head(engine: Engine):
    assert migrate.version(engine) is None
    with pytest.raises(SchemaMismatch, match="rtagent db sync"):
        migrate.check(engine)
    migrate.sync(engine)
    migrate.sync(engine)
    assert migrate.version(engine) == migrate.HEAD
    migrate.check(engine)


def test_ready_creates_the_schema_of_an_empty_sqlite_database(engine: Engine):
    migrate.ready(engine)
    migrate.ready(engine)
    assert migrate.version(engine) == migrate.HEAD


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


def test_sync_records_the_oldest_program_that_may_write(engine: Engine):
    migrate.sync(engine)
    assert migrate.oldest_writer(engine) == migrate.OLDEST <= migrate.HEAD
    set_oldest_writer(engine, "0010")  # as the release before recorded it
    migrate.sync(engine)
    assert migrate.oldest_writer(engine) == migrate.OLDEST


def test_schema_of_the_next_release_is_used_and_left_as_it_is(engine: Engine):
    migrate.sync(engine)
    set_version(engine, "9998")
    set_oldest_writer(engine, migrate.HEAD)
    assert migrate.check(engine) == "9998"
    migrate.ready(engine)
    migrate.sync(engine)
    assert migrate.version(engine) == "9998"
    assert migrate.oldest_writer(engine) == migrate.HEAD


def test_schema_that_is_newer_by_two_releases_is_refused(engine: Engine):
    migrate.sync(engine)
    set_version(engine, "9999")
    set_oldest_writer(engine, "9998")
    for refuse in (migrate.check, migrate.ready, migrate.sync):
        with pytest.raises(SchemaMismatch, match="by more than one release"):
            refuse(engine)


def test_newer_schema_without_a_record_is_refused(engine: Engine):
    migrate.sync(engine)
    set_version(engine, "9999")
    with engine.begin() as connection:
        connection.execute(text("DROP TABLE schema_compatibility"))
    with pytest.raises(SchemaMismatch, match="newer than this program"):
        migrate.check(engine)


def test_failed_sync_changes_nothing(engine: Engine):
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE claims (x INTEGER)"))
    with pytest.raises(StoreUnavailable, match="node_uuid"):
        migrate.sync(engine)
    assert inspect(engine).get_table_names() == ["claims"]


@pytest.mark.parametrize(
    "url",
    ["sqlite:///x", "postgresql+psycopg://h/d", "mysql+pymysql://h/d", "mariadb+pymysql://h/d"],
)
def test_script_creates_every_table(url: str):
    script = migrate.script(url)
    for table in metadata.tables:
        assert f"CREATE TABLE {table} " in script


def test_script_for_an_unsupported_database_is_refused():
    with pytest.raises(ConfigError):
        migrate.script("oracle://h/d")
