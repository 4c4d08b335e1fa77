"""A migration: one side's record of a move. By itself it holds nothing and frees nothing."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final, Literal

from rtagent.model.base import Document, Name, Uuid, Value
from rtagent.model.claim import EVACUATION, LIVE_MIGRATION, MIGRATION, RESIZE
from rtagent.model.flavor import Flavor

MigrationType = Literal["resize", "migration", "live-migration", "evacuation"]

#: Which part a node has in a move. The row of a resize on one host is its destination's.
SOURCE: Final = "source"
DEST: Final = "dest"

#: Nova's statuses, as far as an agent sets them.
PRE_MIGRATING, PREPARING, MIGRATING, RUNNING = "pre-migrating", "preparing", "migrating", "running"
FINISHED, CONFIRMED, REVERTED, ERROR = "finished", "confirmed", "reverted", "error"
COMPLETED, DONE = "completed", "done"

#: The guest has come back, or never left.
RETURNED = frozenset({REVERTED, ERROR, "failed", "cancelled"})
#: The guest has gone over, and nothing of the move is left to be done here.
OVER = frozenset({CONFIRMED, COMPLETED, DONE})
ENDED = RETURNED | OVER

#: With what a move begins, at either side; how it is while its guest is on the way; what it is at
#: the destination when that has the guest; what it is at the source when that has let it go.
BEGUN: Mapping[str, str] = {
    RESIZE: PRE_MIGRATING,
    MIGRATION: PRE_MIGRATING,
    LIVE_MIGRATION: PREPARING,
    EVACUATION: PRE_MIGRATING,
}
UNDER_WAY: Mapping[str, str] = {
    RESIZE: MIGRATING,
    MIGRATION: MIGRATING,
    LIVE_MIGRATION: RUNNING,
    EVACUATION: MIGRATING,
}
ARRIVED: Mapping[str, str] = {
    RESIZE: FINISHED,
    MIGRATION: FINISHED,
    LIVE_MIGRATION: COMPLETED,
    EVACUATION: DONE,
}
LET_GO: Mapping[str, str] = {
    RESIZE: CONFIRMED,
    MIGRATION: CONFIRMED,
    LIVE_MIGRATION: COMPLETED,
    EVACUATION: COMPLETED,
}


class MigrationFacts(Document, frozen=True, kw_only=True):
    """A move as its caller tells of it, in Nova's terms.

    :ivar status: where the record begins that a claim makes; afterwards the calls move it.
    :ivar source_compute: and dest_compute: services' hosts. :ivar source_node: and dest_node:
        hypervisor hostnames. :ivar dest_host: an address.
    """

    uuid: Uuid
    migration_type: MigrationType
    status: Name | None = None
    source_compute: Name | None = None
    source_node: Name | None = None
    dest_compute: Name | None = None
    dest_node: Name | None = None
    dest_host: Name | None = None
    old_flavor: Flavor | None = None
    new_flavor: Flavor | None = None


class Migration(Value, frozen=True, kw_only=True):
    """One side's record: what its agent knows of the move, and how far it is there.

    :ivar role: `SOURCE` or `DEST`.
    :ivar claim_uuid: the claim that leaves, or the one that arrives; None: there never was one.
    """

    uuid: str
    node_uuid: str
    role: str
    instance_uuid: str
    migration_type: str
    status: str
    created_at: datetime
    updated_at: datetime
    claim_uuid: str | None = None
    source_compute: str | None = None
    source_node: str | None = None
    dest_compute: str | None = None
    dest_node: str | None = None
    dest_host: str | None = None
    old_flavor: Flavor | None = None
    new_flavor: Flavor | None = None


class TakenOver(Value, frozen=True, kw_only=True):
    """Where else a guest is for good. :ivar host: a service's. :ivar migration_uuid: its evacuation
    there, or None: that is forgotten."""

    host: str
    migration_uuid: str | None = None
