"""The methods of moves (resize, migration, live migration, evacuation), and of what they leave."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from msgspec.structs import replace

from rtagent.audit import Auditor
from rtagent.lifecycle.moves import (
    drop_move_claim,
    drop_move_claim_at_dest,
    drop_move_claim_at_source,
    finish_evacuation,
    finish_move,
    finish_revert,
    move_claim,
    start_move_out,
)
from rtagent.model.base import Uuid
from rtagent.model.change import Call
from rtagent.model.deletion_reason import DeletionReason
from rtagent.model.migration import MigrationFacts, MigrationType, MoveRequest, SourceFacts
from rtagent.model.request import (
    BuildRequest,
    Flavor,
    Image,
)
from rtagent.rpc import replies
from rtagent.rpc.method import (
    CLAIM_ERRORS,
    CREATION_ERRORS,
    READY_ERRORS,
    Change,
    rpc_method,
)
from rtagent.rpc.roles import CONDUCTOR
from rtagent.tracker import ResourceTracker


class ColdMigrationFacts(MigrationFacts, frozen=True, kw_only=True):
    """A resize or a cold migration."""

    migration_type: Literal["resize", "migration"]


class LiveMigrationFacts(MigrationFacts, frozen=True, kw_only=True):
    """A live migration."""

    migration_type: Literal["live-migration"]


class EvacuationFacts(MigrationFacts, frozen=True, kw_only=True):
    """An evacuation."""

    migration_type: Literal["evacuation"]


class MoveArguments(BuildRequest, frozen=True, kw_only=True):
    """The facts from which a move's claim is decided.

    :ivar operation_id: becomes the claim's uuid.
    :ivar instance: the instance in its state at the source.
    :ivar allocations: as for ``instance_claim``: what the instance has at the destination.
    :ivar provider_mapping: as for ``instance_claim``.
    :ivar source: the guest's resources at the source. They determine the replacement of each
        device, and the page sizes that a live migration keeps.
    """

    operation_id: Uuid
    source: SourceFacts | None = None


class ResizeClaim(MoveArguments, frozen=True, kw_only=True):
    """:ivar flavor: the new one; the instance's flavor makes the move a cold migration.
    :ivar image: the new one; null: the instance's.
    :ivar migration: null: the agent creates a record, whose uuid is the claim's.
    """

    flavor: Flavor
    image: Image | None = None
    migration: ColdMigrationFacts | None = None


class LiveMigrationClaim(MoveArguments, frozen=True, kw_only=True):
    """Neither flavor nor image can change.

    :ivar migration: null: the agent creates a record, whose uuid is the claim's.
    """

    migration: LiveMigrationFacts | None = None


class RebuildClaim(MoveArguments, frozen=True, kw_only=True):
    """:ivar image: the new one; null: the instance's.
    :ivar migration: null: the agent creates a record, whose uuid is the claim's.
    """

    image: Image | None = None
    migration: EvacuationFacts | None = None


class MoveChange(Change, frozen=True, kw_only=True):
    """A transition of a move, at its source or its destination."""

    instance_uuid: Uuid
    migration: MigrationFacts


class EvacuationChange(MoveChange, frozen=True, kw_only=True):
    """A transition of an evacuation."""

    migration: EvacuationFacts


class MoveEndpoint:
    """Serves the methods of moves.

    Source and destination get separate calls, in any order. Each call may be repeated.
    """

    def __init__(
        self,
        tracker: ResourceTracker,
        auditor: Auditor,
        claim_replies: replies.ClaimReplies,
    ) -> None:
        self._tracker, self._auditor, self._replies = tracker, auditor, claim_replies

    @rpc_method(CONDUCTOR, errors=(*CREATION_ERRORS, *READY_ERRORS), by_position=("migration",))
    def resize_claim(self, arguments: ResizeClaim, call: Call) -> replies.Claim:
        """Claim resources for a resize or a cold migration to this host, or for a resize on it. The
        claim is ``incoming`` and leased, and exists besides the claim that the instance may have
        here. The new claim reuses that claim's resources first."""
        kind: MigrationType = (
            "migration" if arguments.flavor == arguments.instance.flavor else "resize"
        )
        migration, flavor = arguments.migration or kind, arguments.flavor
        return self._claim(arguments, migration, call, flavor, arguments.image)

    @rpc_method(CONDUCTOR, errors=(*CREATION_ERRORS, *READY_ERRORS), by_position=("migration",))
    def live_migration_claim(self, arguments: LiveMigrationClaim, call: Call) -> replies.Claim:
        """Claim resources for a live migration to this host. The claim is ``incoming`` and
        leased."""
        return self._claim(arguments, arguments.migration or "live-migration", call)

    @rpc_method(CONDUCTOR, errors=(*CREATION_ERRORS, *READY_ERRORS), by_position=("migration",))
    def rebuild_claim(self, arguments: RebuildClaim, call: Call) -> replies.Claim:
        """Claim resources for an instance that is evacuated to this host. The claim is ``incoming``
        and leased."""
        return self._claim(
            arguments, arguments.migration or "evacuation", call, image=arguments.image
        )

    def _claim(
        self,
        arguments: MoveArguments,
        migration: MigrationFacts | MigrationType,
        call: Call,
        flavor: Flavor | None = None,
        image: Image | None = None,
    ) -> replies.Claim:
        request = move_request(arguments, arguments.source, migration, flavor, image)
        return self._replies.incoming(self._tracker.create(move_claim, call, request), call)

    @rpc_method(CONDUCTOR, errors=CLAIM_ERRORS)
    def start_move_out(self, arguments: MoveChange, call: Call) -> replies.Claim:
        """At the source, before the guest leaves: make its ``active`` claim ``outgoing``, which
        keeps its resources for a revert."""
        owner, migration = arguments.instance_uuid, arguments.migration
        claim = self._tracker.change(start_move_out, call, owner, migration)
        return self._replies.claim(claim)

    @rpc_method(CONDUCTOR, errors=CLAIM_ERRORS)
    def finish_move(self, arguments: MoveChange, call: Call) -> replies.Claim:
        """At the destination, when the guest has arrived: make its ``incoming`` claim ``active``. A
        caller that receives ``ClaimExpired`` must not start the domain."""
        owner, migration = arguments.instance_uuid, arguments.migration
        claim = self._tracker.change(finish_move, call, owner, migration)
        return self._replies.claim(claim)

    @rpc_method(CONDUCTOR, errors=CLAIM_ERRORS)
    def finish_evacuation(self, arguments: EvacuationChange, call: Call) -> replies.Claim:
        """At the destination, when the evacuated guest has arrived: make its ``incoming`` claim
        ``active`` and the migration ``done``. A caller that receives ``ClaimExpired`` must not
        start the domain."""
        owner, migration = arguments.instance_uuid, arguments.migration
        claim = self._tracker.change(finish_evacuation, call, owner, migration)
        return self._replies.claim(claim)

    @rpc_method(CONDUCTOR, errors=("IllegalTransition",))
    def drop_move_claim_at_source(self, arguments: MoveChange, call: Call) -> None:
        """Confirm a move at the source: release the source's claim. The migration becomes
        ``confirmed``; a live migration or an evacuation becomes ``completed``. Idempotent."""
        self._tracker.execute(
            drop_move_claim_at_source,
            call,
            arguments.instance_uuid,
            arguments.migration,
            self._auditor.domains,
        )

    @rpc_method(CONDUCTOR, errors=("IllegalTransition",))
    def drop_move_claim_at_dest(self, arguments: MoveChange, call: Call) -> None:
        """Revert a move at the destination: release the destination's claim. The migration becomes
        ``reverted``. Idempotent."""
        owner, migration = arguments.instance_uuid, arguments.migration
        self._tracker.execute(drop_move_claim_at_dest, call, owner, migration)

    @rpc_method(CONDUCTOR, errors=(*CLAIM_ERRORS, *READY_ERRORS))
    def finish_revert(self, arguments: MoveChange, call: Call) -> replies.Claim:
        """At the source, when the guest is back: make its ``outgoing`` claim ``active``. A caller
        that receives ``ClaimExpired`` must not start the domain."""
        owner, migration = arguments.instance_uuid, arguments.migration
        claim = self._tracker.change(finish_revert, call, owner, migration)
        return self._replies.startable(claim)

    @rpc_method(CONDUCTOR, errors=("IllegalTransition",))
    def drop_move_claim(self, arguments: MoveChange, call: Call) -> None:
        """Report a failed move, at either side: release the destination's claim, make the source's
        claim ``active`` again, and set the migration to ``error``. Idempotent."""
        self._tracker.execute(drop_move_claim, call, arguments.instance_uuid, arguments.migration)


def move_request(
    arguments: BuildRequest,
    source: SourceFacts | None,
    migration: MigrationFacts | MigrationType,
    flavor: Flavor | None = None,
    image: Image | None = None,
) -> MoveRequest:
    """Return the request of a move's claim.

    :param arguments: with the instance in its state at the source.
    :param migration: or its type: then the agent creates the record.
    :param flavor: the new one; None: the instance's. :param image: likewise.
    """
    instance = arguments.instance
    guest = replace(instance, flavor=flavor or instance.flavor, image=image or instance.image)
    return MoveRequest(
        build=replace(arguments, instance=guest),
        old_flavor=instance.flavor,
        migration=migration,
        source=source or SourceFacts(),
    )


#: Deletes this node's part of what an instance has in Placement.
DeleteAllocation = Callable[[str, DeletionReason], None]

#: Errors of the methods that delete allocations.
DELETION_ERRORS = (
    *("IllegalTransition", "StoreRestored"),
    *("PlacementError", "PlacementConflict", "PlacementUnavailable"),
)


class DeleteAllocationFor(Change, frozen=True, kw_only=True):
    """The instance that has left."""

    instance_uuid: Uuid


class AllocationEndpoint:
    """Serves the methods that delete allocations."""

    def __init__(self, tracker: ResourceTracker, delete: DeleteAllocation) -> None:
        self._tracker, self._delete = tracker, delete

    @rpc_method(CONDUCTOR, errors=DELETION_ERRORS, slow=True)
    def delete_allocation_for_evacuated_instance(
        self, arguments: DeleteAllocationFor, call: Call
    ) -> None:
        """Delete what Placement records on this node for an instance that was evacuated from here,
        and for its ended migrations. Its allocations on other nodes stay. Refused while the
        instance has a claim here. The reply is sent when that is done. Idempotent."""
        self._delete_for(arguments, DeletionReason.EVACUATED, call)

    @rpc_method(CONDUCTOR, errors=DELETION_ERRORS, slow=True)
    def delete_allocation_for_migrated_instance(
        self, arguments: DeleteAllocationFor, call: Call
    ) -> None:
        """Delete what Placement records on this node for an instance that was migrated or resized,
        and for its ended migrations. Its allocations on other nodes stay. After a resize on this
        node only that of the migration is deleted. Refused while the source's claim is held. The
        reply is sent when that is done. Idempotent."""
        self._delete_for(arguments, DeletionReason.MIGRATED, call)

    @rpc_method(CONDUCTOR, errors=DELETION_ERRORS, slow=True)
    def delete_allocation_for_shelve_offloaded_instance(
        self, arguments: DeleteAllocationFor, call: Call
    ) -> None:
        """Delete what Placement records on this node for an instance that was offloaded, and for
        its ended migrations. Its allocations on other nodes stay. Refused while the instance has a
        claim here. The reply is sent when that is done. Idempotent."""
        self._delete_for(arguments, DeletionReason.SHELVE_OFFLOADED, call)

    def _delete_for(
        self, arguments: DeleteAllocationFor, reason: DeletionReason, call: Call
    ) -> None:
        self._tracker.once(call, lambda: self._delete(arguments.instance_uuid, reason))
