"""The migrations make what the code expects, on every database."""

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import text

from rtagent.db import migrate
from rtagent.db.engine import open_engine
from rtagent.db.schema import metadata
from rtagent.errors import SchemaMismatch


def test_migrations_and_tables_agree(database_url: str):
    engine = open_engine(database_url, 5)
    migrate.sync(engine)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_server_default": True})
        assert compare_metadata(context, metadata) == []
    migrate.check(engine)


def test_the_printed_script_is_the_same_schema(database_url: str):
    engine = open_engine(database_url, 5)
    with engine.begin() as connection:
        for statement in migrate.script(database_url).split(";\n"):
            if statement.strip() not in ("", "BEGIN", "COMMIT"):
                connection.execute(text(statement))
    migrate.check(engine)
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []


def test_a_server_is_made_ready_by_its_operator_only(database_url: str):
    engine = open_engine(database_url, 5)
    if engine.dialect.name == "sqlite":
        migrate.ready(engine)
    else:
        with pytest.raises(SchemaMismatch, match="rtagent db sync"):
            migrate.ready(engine)
