"""Alembic's entry: on a connection that the caller brings, or offline, for a dialect by name."""

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
        # SQLite can; Alembic thinks that it cannot, because its driver does not by itself.
        transactional_ddl=context.config.attributes["connection"].dialect.name == "sqlite" or None,
    )

with context.begin_transaction():
    context.run_migrations()
