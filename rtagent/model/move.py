"""A request to claim resources at the destination of a move."""

from __future__ import annotations

from rtagent.model.base import Document, Entries, Items, Name, Positive, Value
from rtagent.model.flavor import Flavor
from rtagent.model.migration import MigrationFacts, MigrationType
from rtagent.model.request import BuildRequest


class SourceFacts(Document, frozen=True, kw_only=True):
    """What a guest has at its source, as recorded in its claim there.

    :ivar page_sizes: KiB, by guest cell; null: no explicit size. A live migration keeps them.
    :ivar devices: addresses, by purpose: the alias's name, or the request's id. Devices of this
        host replace them.
    """

    page_sizes: Items[Positive | None] = ()
    devices: Entries[Name, Items[Name]] = {}


class MoveRequest(Value, frozen=True, kw_only=True):
    """Claim resources for a guest that is to arrive on this host.

    :ivar build: the guest as it will be here, with its new flavor and image.
    :ivar migration: the record of the move, or its type alone: then the agent makes a record, and
        the record's uuid is the claim's.
    :ivar old_flavor: the guest's flavor at its source.
    """

    build: BuildRequest
    migration: MigrationFacts | MigrationType
    old_flavor: Flavor
    source: SourceFacts = SourceFacts()

    @property
    def kind(self) -> MigrationType:
        """The type of the move, which is the kind of the claim."""
        if isinstance(self.migration, MigrationFacts):
            return self.migration.migration_type
        return self.migration
