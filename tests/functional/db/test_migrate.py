"""The migrations create the schema that the code expects, on every database."""

from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Engine, inspect, text
from sqlalchemy.engine import make_url

from rtagent.db import migrate
from rtagent.db.engine import open_engine
from rtagent.db.schema import metadata
from rtagent.errors import SchemaMismatch


@pytest.fixture
def another_url(request: pytest.FixtureRequest, database_url: str, tmp_path: Path) -> str:
    """A second empty database of the same kind."""
    kind = make_url(database_url).get_backend_name()
    if kind == "sqlite":
        return f"sqlite:///{tmp_path}/another.sqlite"
    server = request.getfixturevalue("postgresql" if kind == "postgresql" else "mariadb")
    return str(server.create_database())


def test_migrations_create_the_tables_of_the_code(database_url: str):
    engine = open_engine(database_url, 30)
    migrate.sync(engine)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_server_default": True})
        assert compare_metadata(context, metadata) == []
    migrate.check(engine)


def test_migrations_create_the_same_collations_fractions_and_keys(
    database_url: str, another_url: str
):
    """What alembic does not compare: collations, fractions of seconds, keys and their names."""
    migrated, made = open_engine(database_url, 30), open_engine(another_url, 30)
    migrate.sync(migrated)
    metadata.create_all(made)
    assert described(migrated) == described(made)


def test_interrupted_sync_is_repeated(database_url: str, another_url: str):
    """MariaDB commits at each statement."""
    interrupted, whole = open_engine(database_url, 30), open_engine(another_url, 30)
    migrate.sync(whole)
    migrate.sync(interrupted)
    with interrupted.begin() as connection:
        connection.execute(text("DELETE FROM alembic_version"))
        for table in ("server_operations", "aggregate_hosts"):
            connection.execute(text(f"DROP TABLE {table}"))
    migrate.sync(interrupted)
    migrate.check(interrupted)
    assert described(interrupted) == described(whole)


def described(engine: Engine) -> dict[str, object]:
    inspector = inspect(engine)
    return {
        table: (
            {c["name"]: (repr(c["type"]), c["nullable"]) for c in inspector.get_columns(table)},
            inspector.get_pk_constraint(table),
            sorted(inspector.get_indexes(table), key=str),
            sorted(inspector.get_unique_constraints(table), key=str),
            inspector.get_foreign_keys(table),
            inspector.get_table_options(table),
        )
        for table in metadata.tables
    }


def test_printed_script_creates_the_same_schema(database_url: str):
    engine = open_engine(database_url, 30)
    with engine.begin() as connection:
        for statement in migrate.script(database_url).split(";\n"):
            if statement.strip() not in ("", "BEGIN", "COMMIT"):
                connection.execute(text(statement))
    migrate.check(engine)
    assert migrate.oldest_writer(engine) == migrate.OLDEST
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []


@pytest.mark.parametrize(("service", "tables"), migrate.FOREIGN.items())
def test_the_database_of_another_service_is_refused_and_left_alone(
    database_url: str, service: str, tables: tuple[str, ...]
):
    engine = open_engine(database_url, 30)
    with engine.begin() as connection:
        for table in tables:
            connection.execute(text(f"CREATE TABLE {table} (id INTEGER PRIMARY KEY)"))
    for refused in (migrate.sync, migrate.ready, migrate.check, migrate.version):
        with pytest.raises(
            SchemaMismatch, match=f"names the database of {service}: give the agent"
        ):
            refused(engine)
    assert set(inspect(engine).get_table_names()) == {*tables}


def test_ready_never_creates_the_schema_on_a_server(database_url: str):
    engine = open_engine(database_url, 30)
    if engine.dialect.name == "sqlite":
        migrate.ready(engine)
    else:
        with pytest.raises(SchemaMismatch, match="rtagent db sync"):
            migrate.ready(engine)
