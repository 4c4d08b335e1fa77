"""Alembic's entry point: upgrade on the caller's connection, or offline for a named dialect."""

from alembic import context

from rtagent.db.schema import metadata

if context.is_offline_mode():
    context.configure(
        dialect_name=context.config.attributes["dialect"],
        target_metadata=metadata,
        literal_binds=True,
    )
else:
    context.configure(
        connection=context.config.attributes["connection"],
        target_metadata=metadata,
        # SQLite has transactional DDL. Alembic assumes otherwise, because the driver alone has not.
        transactional_ddl=context.config.attributes["connection"].dialect.name == "sqlite" or None,
    )

with context.begin_transaction():
    context.run_migrations()
