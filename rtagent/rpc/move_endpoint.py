"""The methods of moves (resize, migration, live migration, evacuation), and of what they leave."""

from typing import Literal

from msgspec.structs import replace

from rtagent.lifecycle import moves
from rtagent.model.base import Uuid
from rtagent.model.change import Call
from rtagent.model.claim import Claim
from rtagent.model.consumers import DeletionReason
from rtagent.model.decision import Rule
from rtagent.model.migration import MigrationFacts, MigrationType, MoveRequest, SourceFacts
from rtagent.model.request import BuildRequest, Flavor, Image
from rtagent.rpc import replies
from rtagent.rpc.method import CLAIM_ERRORS, CREATION_ERRORS, READY_ERRORS, Change, rpc_method
from rtagent.rpc.roles import CONDUCTOR
from rtagent.rpc.served_agent import ServedAgent


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


# Source and destination get separate calls, in any order. Each call may be repeated.


@rpc_method(CONDUCTOR, errors=(*CREATION_ERRORS, *READY_ERRORS), by_position=("migration",))
def resize_claim(agent: ServedAgent, arguments: ResizeClaim, call: Call) -> replies.Claim:
    """Claim resources for a resize or a cold migration to this host, or for a resize on it. The
    claim is ``incoming`` and leased, and exists besides the claim that the instance may have here.
    The new claim reuses that claim's resources first."""
    same = arguments.flavor == arguments.instance.flavor
    kind: MigrationType = "migration" if same else "resize"
    migration, flavor = arguments.migration or kind, arguments.flavor
    return _claim(agent, arguments, migration, call, flavor, arguments.image)


@rpc_method(CONDUCTOR, errors=(*CREATION_ERRORS, *READY_ERRORS), by_position=("migration",))
def live_migration_claim(
    agent: ServedAgent, arguments: LiveMigrationClaim, call: Call
) -> replies.Claim:
    """Claim resources for a live migration to this host. The claim is ``incoming`` and leased."""
    return _claim(agent, arguments, arguments.migration or "live-migration", call)


@rpc_method(CONDUCTOR, errors=(*CREATION_ERRORS, *READY_ERRORS), by_position=("migration",))
def rebuild_claim(agent: ServedAgent, arguments: RebuildClaim, call: Call) -> replies.Claim:
    """Claim resources for an instance that is evacuated to this host. The claim is ``incoming`` and
    leased."""
    image = arguments.image
    return _claim(agent, arguments, arguments.migration or "evacuation", call, image=image)


def _claim(
    agent: ServedAgent,
    arguments: MoveArguments,
    migration: MigrationFacts | MigrationType,
    call: Call,
    flavor: Flavor | None = None,
    image: Image | None = None,
) -> replies.Claim:
    request = move_request(arguments, arguments.source, migration, flavor, image)
    return agent.incoming(agent.tracker.create(moves.move_claim, call, request), call)


@rpc_method(CONDUCTOR, errors=CLAIM_ERRORS)
def start_move_out(agent: ServedAgent, arguments: MoveChange, call: Call) -> replies.Claim:
    """At the source, before the guest leaves: make its ``active`` claim ``outgoing``, which keeps
    its resources for a revert."""
    return agent.claim(_changed(agent, moves.start_move_out, arguments, call))


@rpc_method(CONDUCTOR, errors=CLAIM_ERRORS)
def finish_move(agent: ServedAgent, arguments: MoveChange, call: Call) -> replies.Claim:
    """At the destination, when the guest has arrived: make its ``incoming`` claim ``active``. A
    caller that receives ``ClaimExpired`` must not start the domain."""
    return agent.claim(_changed(agent, moves.finish_move, arguments, call))


@rpc_method(CONDUCTOR, errors=CLAIM_ERRORS)
def finish_evacuation(agent: ServedAgent, arguments: EvacuationChange, call: Call) -> replies.Claim:
    """At the destination, when the evacuated guest has arrived: make its ``incoming`` claim
    ``active`` and the migration ``done``. A caller that receives ``ClaimExpired`` must not start
    the domain."""
    return agent.claim(_changed(agent, moves.finish_evacuation, arguments, call))


@rpc_method(CONDUCTOR, errors=("IllegalTransition",))
def drop_move_claim_at_source(agent: ServedAgent, arguments: MoveChange, call: Call) -> None:
    """Confirm a move at the source: release the source's claim. The migration becomes
    ``confirmed``; a live migration or an evacuation becomes ``completed``. Idempotent."""
    owner, migration = arguments.instance_uuid, arguments.migration
    domains = agent.auditor.domains
    agent.tracker.execute(moves.drop_move_claim_at_source, call, owner, migration, domains)


@rpc_method(CONDUCTOR, errors=("IllegalTransition",))
def drop_move_claim_at_dest(agent: ServedAgent, arguments: MoveChange, call: Call) -> None:
    """Revert a move at the destination: release the destination's claim. The migration becomes
    ``reverted``. Idempotent."""
    owner, migration = arguments.instance_uuid, arguments.migration
    agent.tracker.execute(moves.drop_move_claim_at_dest, call, owner, migration)


@rpc_method(CONDUCTOR, errors=(*CLAIM_ERRORS, *READY_ERRORS))
def finish_revert(agent: ServedAgent, arguments: MoveChange, call: Call) -> replies.Claim:
    """At the source, when the guest is back: make its ``outgoing`` claim ``active``. A caller that
    receives ``ClaimExpired`` must not start the domain."""
    return agent.startable(_changed(agent, moves.finish_revert, arguments, call))


@rpc_method(CONDUCTOR, errors=("IllegalTransition",))
def drop_move_claim(agent: ServedAgent, arguments: MoveChange, call: Call) -> None:
    """Report a failed move, at either side: release the destination's claim, make the source's
    claim ``active`` again, and set the migration to ``error``. Idempotent."""
    owner, migration = arguments.instance_uuid, arguments.migration
    agent.tracker.execute(moves.drop_move_claim, call, owner, migration)


def _changed(
    agent: ServedAgent, rule: Rule[[str, MigrationFacts]], arguments: MoveChange, call: Call
) -> Claim:
    return agent.tracker.change(rule, call, arguments.instance_uuid, arguments.migration)


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


#: Errors of the methods that delete allocations.
DELETION_ERRORS = (
    *("IllegalTransition", "StoreRestored"),
    *("PlacementError", "PlacementConflict", "PlacementUnavailable"),
)


class DeleteAllocationFor(Change, frozen=True, kw_only=True):
    """The instance that has left."""

    instance_uuid: Uuid


@rpc_method(CONDUCTOR, errors=DELETION_ERRORS, slow=True)
def delete_allocation_for_evacuated_instance(
    agent: ServedAgent, arguments: DeleteAllocationFor, call: Call
) -> None:
    """Delete what Placement records on this node for an instance that was evacuated from here, and
    for its ended migrations. Its allocations on other nodes stay. Refused while the instance has a
    claim here. The reply is sent when that is done. Idempotent."""
    _delete(agent, arguments, DeletionReason.EVACUATED, call)


@rpc_method(CONDUCTOR, errors=DELETION_ERRORS, slow=True)
def delete_allocation_for_migrated_instance(
    agent: ServedAgent, arguments: DeleteAllocationFor, call: Call
) -> None:
    """Delete what Placement records on this node for an instance that was migrated or resized, and
    for its ended migrations. Its allocations on other nodes stay. After a resize on this node only
    that of the migration is deleted. Refused while the source's claim is held. The reply is sent
    when that is done. Idempotent."""
    _delete(agent, arguments, DeletionReason.MIGRATED, call)


@rpc_method(CONDUCTOR, errors=DELETION_ERRORS, slow=True)
def delete_allocation_for_shelve_offloaded_instance(
    agent: ServedAgent, arguments: DeleteAllocationFor, call: Call
) -> None:
    """Delete what Placement records on this node for an instance that was offloaded, and for its
    ended migrations. Its allocations on other nodes stay. Refused while the instance has a claim
    here. The reply is sent when that is done. Idempotent."""
    _delete(agent, arguments, DeletionReason.SHELVE_OFFLOADED, call)


def _delete(
    agent: ServedAgent, arguments: DeleteAllocationFor, reason: DeletionReason, call: Call
) -> None:
    agent.tracker.once(call, lambda: agent.delete_allocation(arguments.instance_uuid, reason))
