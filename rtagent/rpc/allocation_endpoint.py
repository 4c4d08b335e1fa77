"""The methods that delete allocations in Placement, and their arguments."""

from __future__ import annotations

from collections.abc import Callable

from rtagent.model.base import Uuid
from rtagent.model.change import Call
from rtagent.model.deletion_reason import DeletionReason
from rtagent.rpc.method import Change, rpc_method
from rtagent.rpc.roles import CONDUCTOR
from rtagent.tracker import ResourceTracker

#: Deletes this node's part of what an instance has in Placement.
DeleteAllocation = Callable[[str, DeletionReason], None]

_ERRORS = (
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

    @rpc_method(CONDUCTOR, errors=_ERRORS, slow=True)
    def delete_allocation_for_evacuated_instance(
        self, arguments: DeleteAllocationFor, call: Call
    ) -> None:
        """Delete what Placement records on this node for an instance that was evacuated from here,
        and for its ended migrations. Its allocations on other nodes stay. Refused while the
        instance has a claim here. The reply is sent when that is done. Idempotent."""
        self._delete_for(arguments, DeletionReason.EVACUATED, call)

    @rpc_method(CONDUCTOR, errors=_ERRORS, slow=True)
    def delete_allocation_for_migrated_instance(
        self, arguments: DeleteAllocationFor, call: Call
    ) -> None:
        """Delete what Placement records on this node for an instance that was migrated or resized,
        and for its ended migrations. Its allocations on other nodes stay. After a resize on this
        node only that of the migration is deleted. Refused while the source's claim is held. The
        reply is sent when that is done. Idempotent."""
        self._delete_for(arguments, DeletionReason.MIGRATED, call)

    @rpc_method(CONDUCTOR, errors=_ERRORS, slow=True)
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
