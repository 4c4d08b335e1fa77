"""A request to hold resources for a guest that is to arrive."""

from __future__ import annotations

from collections.abc import Mapping

from rtagent.model.base import Document, Name, Positive, Value
from rtagent.model.flavor import Flavor
from rtagent.model.migration import MigrationFacts, MigrationType
from rtagent.model.request import BuildRequest


class SourceFacts(Document, frozen=True, kw_only=True):
    """What a guest has where it comes from, as its claim there says.

    :ivar page_sizes: KiB, by guest cell; null: no explicit size. A live migration keeps them.
    :ivar devices: addresses, by their purpose: the alias's name, or the request's id. Others will
        take their place.
    """

    page_sizes: tuple[Positive | None, ...] = ()
    devices: Mapping[Name, tuple[Name, ...]] = {}


class MoveRequest(Value, frozen=True, kw_only=True):
    """Hold resources for a guest that is to arrive.

    :ivar build: the guest as it will be here: its new flavor and image.
    :ivar kind: of `claim.MOVE_KINDS`. :ivar old_flavor: as it was.
    :ivar migration: None: the agent makes a record, under the claim's uuid.
    """

    build: BuildRequest
    kind: MigrationType
    old_flavor: Flavor
    migration: MigrationFacts | None = None
    source: SourceFacts = SourceFacts()
