"""Moves: the request for one, and its migration, which is one node's record of it.

By itself a migration neither allocates nor frees anything.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Final, Literal

from rtagent.model.base import Document, Entries, Items, Name, Positive, Uuid, Value
from rtagent.model.claim import EVACUATION, LIVE_MIGRATION, MIGRATION, RESIZE
from rtagent.model.request import BuildRequest, Flavor

MigrationType = Literal["resize", "migration", "live-migration", "evacuation"]

#: The role of a node in a move. For a resize on one host there is one record, the destination's.
SOURCE: Final = "source"
DEST: Final = "dest"
Role = Literal["source", "dest"]

#: Nova's statuses, as far as an agent sets them.
PRE_MIGRATING, PREPARING, MIGRATING, RUNNING = "pre-migrating", "preparing", "migrating", "running"
FINISHED, CONFIRMED, REVERTED, ERROR = "finished", "confirmed", "reverted", "error"
COMPLETED, DONE = "completed", "done"

#: All of Nova's statuses, in the order of a move.
STATUSES = (
    *("accepted", "queued", PREPARING, PRE_MIGRATING, MIGRATING, RUNNING, "post-migrating"),
    *(FINISHED, "confirming", CONFIRMED, "reverting", REVERTED, COMPLETED, DONE),
    *("cancelled", "failed", ERROR),
)

#: The guest is back at its source, or never left it.
RETURNED = frozenset({REVERTED, ERROR, "failed", "cancelled"})
#: The guest is at its destination, and no call of the move remains to be made here.
SUCCEEDED = frozenset({CONFIRMED, COMPLETED, DONE})
ENDED = RETURNED | SUCCEEDED

#: Status of a new record, by type of the move.
INITIAL_STATUS: Mapping[str, str] = {
    RESIZE: PRE_MIGRATING,
    MIGRATION: PRE_MIGRATING,
    LIVE_MIGRATION: PREPARING,
    EVACUATION: PRE_MIGRATING,
}
#: Status at the source while the guest moves.
MOVING_STATUS: Mapping[str, str] = {
    RESIZE: MIGRATING,
    MIGRATION: MIGRATING,
    LIVE_MIGRATION: RUNNING,
    EVACUATION: MIGRATING,
}
#: Status at the destination once the guest is there.
ARRIVED_STATUS: Mapping[str, str] = {
    RESIZE: FINISHED,
    MIGRATION: FINISHED,
    LIVE_MIGRATION: COMPLETED,
    EVACUATION: DONE,
}
#: Status at the source once its claim is released.
RELEASED_STATUS: Mapping[str, str] = {
    RESIZE: CONFIRMED,
    MIGRATION: CONFIRMED,
    LIVE_MIGRATION: COMPLETED,
    EVACUATION: COMPLETED,
}


class MigrationFacts(Document, frozen=True, kw_only=True):
    """A move as its caller describes it, in Nova's terms.

    :ivar status: the initial status of the record; afterwards the calls set it.
    :ivar source_compute: the source service's host. :ivar source_node: its hypervisor_hostname.
    :ivar dest_compute: the destination service's host. :ivar dest_node: its hypervisor_hostname.
    :ivar dest_host: the destination's IP address.
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
    """A node's record of a move: what its agent knows of the move, and its status on this node.

    :ivar role: `SOURCE` or `DEST`.
    :ivar claim_uuid: the source's or the destination's claim; None: there never was one.
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
    """The node that has taken over an evacuated guest.

    :ivar host: its service's host.
    :ivar migration_uuid: the evacuation, or None: its record was purged.
    """

    host: str
    migration_uuid: str | None = None


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
