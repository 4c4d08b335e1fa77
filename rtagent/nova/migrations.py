"""Nova's migrations as rtagent's documents."""

from __future__ import annotations

from typing import Any

from rtagent.model.migration import MigrationFacts


def facts(nova: Any) -> MigrationFacts:
    """Return the facts of a migration. Its status is not one: it is that of another database."""
    return MigrationFacts(
        uuid=nova.uuid,
        migration_type=nova.migration_type,
        source_compute=nova.source_compute,
        source_node=nova.source_node,
        dest_compute=nova.dest_compute,
        dest_node=nova.dest_node,
        dest_host=nova.dest_host,
    )
