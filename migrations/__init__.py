"""Alembic migrations, packaged as `rtagent.migrations` by the link of that name."""
