"""The methods of moves: what each takes and answers."""

from __future__ import annotations

from typing import Literal

from rtagent.model.base import Name, Uuid
from rtagent.model.flavor import Flavor, Image
from rtagent.model.instance import Instance
from rtagent.model.migration import MigrationFacts
from rtagent.model.move import SourceFacts
from rtagent.model.request import Allocations, ExtraResource, Limits
from rtagent.rpc import replies
from rtagent.rpc.method import CREATION_ERRORS, READY_ERRORS, Arguments, Change, Method

MOVE_ERRORS = ("IllegalTransition",)
#: Of calls after which a guest is started.
START_ERRORS = ("ClaimNotFound", "ClaimExpired", "IllegalTransition")


class ColdMigrationFacts(MigrationFacts, frozen=True, kw_only=True):
    """A resize or a cold migration."""

    migration_type: Literal["resize", "migration"]


class LiveMigrationFacts(MigrationFacts, frozen=True, kw_only=True):
    """A live migration."""

    migration_type: Literal["live-migration"]


class EvacuationFacts(MigrationFacts, frozen=True, kw_only=True):
    """An evacuation."""

    migration_type: Literal["evacuation"]


class MoveArguments(Arguments, frozen=True, kw_only=True):
    """What a move's claim is decided from.

    :ivar operation_id: the claim's uuid to be.
    :ivar instance: as it is where it comes from.
    :ivar source: what it has there: to tell which devices take the place of which, and for a live
        migration the page sizes that must stay.
    """

    operation_id: Uuid
    instance: Instance
    limits: Limits | None = None
    allocations: Allocations | None = None
    tag: Name | None = None
    extra_resource: ExtraResource | None = None
    source: SourceFacts | None = None


class ResizeClaim(MoveArguments, frozen=True, kw_only=True):
    """:ivar flavor: the new one; the same makes it a cold migration.
    :ivar image: the new one; null: the instance's.
    :ivar migration: null: the agent makes a record, under the claim's uuid.
    """

    flavor: Flavor
    image: Image | None = None
    migration: ColdMigrationFacts | None = None


class LiveMigrationClaim(MoveArguments, frozen=True, kw_only=True):
    """Neither flavor nor image can change."""

    migration: LiveMigrationFacts


class RebuildClaim(MoveArguments, frozen=True, kw_only=True):
    """:ivar image: the new one; null: the instance's."""

    image: Image | None = None
    migration: EvacuationFacts


class MoveChange(Change, frozen=True, kw_only=True):
    """A step of a move, at one of its sides."""

    instance_uuid: Uuid
    migration: MigrationFacts


class EvacuationChange(MoveChange, frozen=True, kw_only=True):
    """A step of an evacuation."""

    migration: EvacuationFacts


MOVES = (
    Method(
        name="resize_claim",
        effect="Hold resources for a resize or a cold migration to this host, or on it: a claim in"
        " state ``incoming``, leased, beside the one that the instance may have here. What that"
        " holds is offered to the new claim first.",
        arguments=ResizeClaim,
        reply=replies.Claim,
        errors=(*CREATION_ERRORS, *READY_ERRORS),
    ),
    Method(
        name="live_migration_claim",
        effect="Hold resources for a live migration to this host: an ``incoming`` claim.",
        arguments=LiveMigrationClaim,
        reply=replies.Claim,
        errors=(*CREATION_ERRORS, *READY_ERRORS),
    ),
    Method(
        name="rebuild_claim",
        effect="Hold resources for an instance that is evacuated to this host: an ``incoming``"
        " claim.",
        arguments=RebuildClaim,
        reply=replies.Claim,
        errors=(*CREATION_ERRORS, *READY_ERRORS),
    ),
    Method(
        name="start_move_out",
        effect="At the source: the guest is about to leave. ``active`` becomes ``outgoing``, held"
        " for a revert.",
        arguments=MoveChange,
        reply=replies.Claim,
        errors=START_ERRORS,
    ),
    Method(
        name="finish_move",
        effect="At the destination: the guest is here. ``incoming`` becomes ``active``.",
        arguments=MoveChange,
        reply=replies.Claim,
        errors=START_ERRORS,
    ),
    Method(
        name="finish_evacuation",
        effect="At the destination: the evacuated guest is here. ``incoming`` becomes ``active``,"
        " the migration ``done``.",
        arguments=EvacuationChange,
        reply=replies.Claim,
        errors=START_ERRORS,
    ),
    Method(
        name="drop_move_claim_at_source",
        effect="Confirm: release the source's claim; the migration is ``confirmed``, a live one or"
        " an evacuation ``completed``. Idempotent.",
        arguments=MoveChange,
        errors=MOVE_ERRORS,
    ),
    Method(
        name="drop_move_claim_at_dest",
        effect="Revert: release the destination's claim; the migration is ``reverted``."
        " Idempotent.",
        arguments=MoveChange,
        errors=MOVE_ERRORS,
    ),
    Method(
        name="finish_revert",
        effect="At the source: the guest is back. ``outgoing`` becomes ``active``.",
        arguments=MoveChange,
        reply=replies.Claim,
        errors=(*START_ERRORS, *READY_ERRORS),
    ),
    Method(
        name="drop_move_claim",
        effect="The move has failed: the destination's claim is released, the source's becomes"
        " ``active`` again, the migration is in ``error``. Idempotent.",
        arguments=MoveChange,
        errors=MOVE_ERRORS,
    ),
)
