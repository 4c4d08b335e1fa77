"""Which claims here a call about a move concerns, and the record of the move."""

from __future__ import annotations

from datetime import datetime

from msgspec.structs import replace

from rtagent.errors import (
    ClaimConflict,
    ClaimExpired,
    ClaimNotFound,
    IllegalTransition,
    RequestError,
)
from rtagent.model.base import Value
from rtagent.model.claim import EVACUATION, INCOMING, OUTGOING, Claim
from rtagent.model.host import HostState
from rtagent.model.migration import DEST, OVER, SOURCE, Migration, MigrationFacts
from rtagent.model.owners import main_claims


class Parties(Value, frozen=True, kw_only=True):
    """One move, as far as it is this node's.

    :ivar record: None: nothing was heard of it here.
    :ivar source: the claim that leaves, or has left and may return. :ivar dest: the one that
        arrives, or has arrived. Both, for a resize on one host.
    """

    owner_id: str
    told: MigrationFacts
    record: Migration | None
    source: Claim | None
    dest: Claim | None

    @property
    def status(self) -> str | None:
        """The record's."""
        return self.record.status if self.record else None

    @property
    def elsewhere(self) -> bool:
        """The source's claim is out for another move than this."""
        return (
            self.source is not None
            and self.source.state == OUTGOING
            and self.source.migration_uuid != self.told.uuid
        )

    def no_source(self, verb: str) -> RequestError:
        """Why there is no claim that could leave or return."""
        if self.record is not None and self.record.role == SOURCE:
            return ClaimExpired(claim_uuid=self.record.claim_uuid)
        if self.dest is not None and self.status in OVER:
            return self.too_late(verb)
        if self.dest is not None:
            return self.too_late(verb, "finish_move, drop_move_claim_at_dest, drop_move_claim")
        return ClaimNotFound(owner_id=self.owner_id, migration_uuid=self.told.uuid)

    def no_dest(self) -> RequestError:
        """Why there is no claim that could have arrived."""
        if self.record is not None and self.record.role == DEST:
            return ClaimExpired(claim_uuid=self.record.claim_uuid)
        return ClaimNotFound(owner_id=self.owner_id, migration_uuid=self.told.uuid)

    def too_late(self, verb: str, legal: str = "a new migration") -> IllegalTransition:
        """That the move is not, or not any more, where that would be right."""
        role = self.record.role if self.record else SOURCE
        return IllegalTransition(
            migration_uuid=self.told.uuid,
            state=f"{self.status} at its {'destination' if role == DEST else 'source'}",
            verb=verb,
            legal=legal,
        )

    def moved_on(self, claim: Claim, verb: str) -> IllegalTransition:
        """That the claim takes part in another move by now."""
        return IllegalTransition(
            claim_uuid=claim.uuid,
            state=f"{claim.state} for migration {claim.migration_uuid}",
            verb=verb,
            legal=f"the calls of migration {claim.migration_uuid}",
        )


def parties(state: HostState, owner_id: str, told: MigrationFacts) -> Parties:
    """:raises ClaimConflict: the migration is another instance's, or of another type."""
    record = state.migrations.get(told.uuid)
    same = (owner_id, told.migration_type)
    if record is not None and (record.instance_uuid, record.migration_type) != same:
        raise ClaimConflict(
            f"migration {record.uuid} is the {record.migration_type} of instance"
            f" {record.instance_uuid}",
            migration_uuid=record.uuid,
        )
    dest = None
    if record is not None and record.role == DEST:
        dest = state.claims.get(record.claim_uuid or "")
    return Parties(
        owner_id=owner_id,
        told=told,
        record=record,
        source=_source(state, owner_id, told, record),
        dest=dest,
    )


def _source(
    state: HostState, owner_id: str, told: MigrationFacts, record: Migration | None
) -> Claim | None:
    """The one that was seen to leave. Else, of those that did not come by this very move, the
    youngest; but of an evacuation the eldest: while its host has not been told of it, the guest may
    have come back, and gone on."""
    if record is not None and record.role == SOURCE:
        return state.claims.get(record.claim_uuid or "")
    mine = [
        claim
        for claim in main_claims(state.claims_of(owner_id))
        if claim.state != INCOMING and (record is None or claim.uuid != record.claim_uuid)
    ]
    out = (claim for claim in mine if claim.migration_uuid == told.uuid)
    if told.migration_type != EVACUATION:
        mine.reverse()
    return next(out, mine[0] if mine else None)


def noted(
    state: HostState, move: Parties, role: str, claim: Claim | None, status: str, now: datetime
) -> Migration:
    """The record after a call, made by it if need be. One that is there keeps its part."""
    if move.record is not None:
        return replace(move.record, status=status, updated_at=now)
    told = {name: getattr(move.told, name) for name in MigrationFacts.__struct_fields__}
    return Migration(
        **{
            **told,
            "node_uuid": state.node.uuid,
            "role": role,
            "instance_uuid": move.owner_id,
            "claim_uuid": claim.uuid if claim else None,
            "status": status,
            "created_at": now,
            "updated_at": now,
        }
    )
