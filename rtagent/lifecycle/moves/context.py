"""One call about a move: the claims and the record that it concerns on this node. How records are
made, and when they are purged.
"""

from collections.abc import Callable, Collection
from datetime import datetime
from functools import wraps
from typing import Concatenate, ParamSpec

from msgspec.structs import asdict, replace

from rtagent import errors
from rtagent.lifecycle.consequences import granted
from rtagent.lifecycle.transitions import event_of
from rtagent.model.base import Value
from rtagent.model.change import Call, Change, Event
from rtagent.model.claim import EVACUATION, INCOMING, OUTGOING, Claim
from rtagent.model.decision import Granted
from rtagent.model.domain_usage import DomainUsage
from rtagent.model.migration import DEST, ENDED, SOURCE, SUCCEEDED, Migration, MigrationFacts
from rtagent.model.node import Node
from rtagent.model.node_state import NodeState
from rtagent.model.owners import main_claims


def new_record(
    node: Node,
    owner_id: str,
    facts: MigrationFacts,
    status: str,
    role: str,
    claim_uuid: str | None,
    now: datetime,
) -> Migration:
    """Make a node's record of a move from what the caller says about it."""
    return Migration(
        **{**asdict(facts), "status": status},
        node_uuid=node.uuid,
        role=role,
        instance_uuid=owner_id,
        claim_uuid=claim_uuid,
        created_at=now,
        updated_at=now,
    )


def check_same_move(record: Migration | None, owner_id: str, facts: MigrationFacts) -> None:
    """Check that a node's record is of the move that the caller describes, if there is one.

    :raises ClaimConflict: the migration is another instance's, or of another type.
    """
    same = (owner_id, facts.migration_type)
    if record is not None and (record.instance_uuid, record.migration_type) != same:
        raise errors.ClaimConflict(
            f"migration {record.uuid} is the {record.migration_type} of instance"
            f" {record.instance_uuid}",
            migration_uuid=record.uuid,
        )


def ended(state: NodeState) -> dict[str, datetime]:
    """Return ``updated_at`` of the records of ended moves, by uuid.

    The record of a move that a live claim takes part in is not included.
    """
    return {u: record.updated_at for u, record in state.migrations.items() if _past(state, record)}


def purge(state: NodeState, expired: Collection[str], now: datetime) -> Change | None:
    """Remove the expired records of ended moves; None: there are none.

    Records are kept as long as operations are. A repeated call of the move, under whatever
    operation id, finds in the record what it did. Without the record, a second confirmation could
    release the claim of an instance that has come back since.
    """
    old = tuple(uuid for uuid in ended(state) if uuid in expired)
    return Change(cause="purge", at=now, migration_removals=old) if old else None


def _past(state: NodeState, record: Migration) -> bool:
    claims = state.claims_of(record.instance_uuid)
    if any(claim.migration_uuid == record.uuid for claim in claims):
        return False
    return record.status in ENDED or record.claim_uuid not in state.claims


class MoveContext(Value, frozen=True, kw_only=True):
    """A call about a move, and what this node knows of the move.

    :ivar verb: the method that is called. :ivar facts: the move as the caller describes it.
    :ivar record: this node's record of the move, or None.
    :ivar source: the claim of the guest that leaves, or that has left and may return.
    :ivar dest: the claim of the guest that is expected, or that has arrived. A resize on one host
        has both.
    """

    state: NodeState
    call: Call
    now: datetime
    verb: str
    owner_id: str
    facts: MigrationFacts
    record: Migration | None
    source: Claim | None
    dest: Claim | None

    @property
    def status(self) -> str | None:
        """The status of the record, or None."""
        return self.record.status if self.record else None

    @property
    def in_other_move(self) -> bool:
        """Whether the source's claim is outgoing for another move than this."""
        return (
            self.source is not None
            and self.source.state == OUTGOING
            and self.source.migration_uuid != self.facts.uuid
        )

    def event(
        self, claim: Claim, verb: str | None = None, reason: str = "", **fields: object
    ) -> Event:
        """The transition of a claim, by the verb of the call unless another is given.

        :raises IllegalTransition:
        """
        return event_of(claim, verb or self.verb, self.state, self.now, reason, **fields)

    def record_with(self, status: str, role: str, claim: Claim | None) -> Migration:
        """The record with this status. Role and claim are those of a new record."""
        if self.record is not None:
            return replace(self.record, status=status, updated_at=self.now)
        claim_uuid = claim.uuid if claim else None
        return new_record(
            self.state.node, self.owner_id, self.facts, status, role, claim_uuid, self.now
        )

    def granted(
        self, record: Migration, *events: Event, domain_usages: tuple[DomainUsage, ...] = ()
    ) -> Granted:
        """Grant the call: these transitions, and this record of the move."""
        return granted(
            self.state,
            self.call,
            self.now,
            *events,
            migrations=(record,),
            domain_usages=domain_usages,
        )

    def no_source(self) -> errors.RequestError:
        """Why there is no claim that could leave or return."""
        if self.record is not None and self.record.role == SOURCE:
            return errors.ClaimExpired(claim_uuid=self.record.claim_uuid)
        if self.dest is not None and self.status in SUCCEEDED:
            return self.too_late()
        if self.dest is not None:
            return self.too_late("finish_move, drop_move_claim_at_dest, drop_move_claim")
        return errors.ClaimNotFound(owner_id=self.owner_id, migration_uuid=self.facts.uuid)

    def no_dest(self) -> errors.RequestError:
        """Why there is no claim that could have arrived."""
        if self.record is not None and self.record.role == DEST:
            return errors.ClaimExpired(claim_uuid=self.record.claim_uuid)
        return errors.ClaimNotFound(owner_id=self.owner_id, migration_uuid=self.facts.uuid)

    def too_late(self, legal: str = "a new migration") -> errors.IllegalTransition:
        """The error that the move's status does not allow the call."""
        role = self.record.role if self.record else SOURCE
        return errors.IllegalTransition(
            migration_uuid=self.facts.uuid,
            state=f"{self.status} at its {'destination' if role == DEST else 'source'}",
            verb=self.verb,
            legal=legal,
        )

    def other_move(self, claim: Claim) -> errors.IllegalTransition:
        """The error that the claim takes part in another move."""
        return errors.IllegalTransition(
            claim_uuid=claim.uuid,
            state=f"{claim.state} for migration {claim.migration_uuid}",
            verb=self.verb,
            legal=f"the calls of migration {claim.migration_uuid}",
        )


def move_context(
    state: NodeState, owner_id: str, facts: MigrationFacts, verb: str, call: Call, now: datetime
) -> MoveContext:
    """Find the claims and the record of a move.

    :param verb: the method that is called, a verb of `LIFE_CYCLE` except for a new claim.
    :raises ClaimConflict: the migration is another instance's, or of another type.
    """
    record = state.migrations.get(facts.uuid)
    check_same_move(record, owner_id, facts)
    dest = None
    if record is not None and record.role == DEST:
        dest = state.claims.get(record.claim_uuid or "")
    return MoveContext(
        state=state,
        call=call,
        now=now,
        verb=verb,
        owner_id=owner_id,
        facts=facts,
        record=record,
        source=_source(state, owner_id, facts, record),
        dest=dest,
    )


P = ParamSpec("P")


def move_rule(
    decide: Callable[Concatenate[MoveContext, P], Granted],
) -> Callable[Concatenate[NodeState, Call, datetime, str, MigrationFacts, P], Granted]:
    """Make the `Rule` of a call about a move, which names the instance and describes the move.

    :param decide: its name is the verb of the transition.
    """

    @wraps(decide)
    def rule(
        state: NodeState,
        call: Call,
        now: datetime,
        owner_id: str,
        facts: MigrationFacts,
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Granted:
        move = move_context(state, owner_id, facts, decide.__name__, call, now)
        return decide(move, *args, **kwargs)

    return rule


def _source(
    state: NodeState, owner_id: str, facts: MigrationFacts, record: Migration | None
) -> Claim | None:
    """The claim that the record names. Without a source's record: the claim that is outgoing for
    this move, else the youngest claim that this move did not make.

    For an evacuation it is the oldest: until the source is informed of the evacuation, the guest
    may have come back to it, and left again.
    """
    if record is not None and record.role == SOURCE:
        return state.claims.get(record.claim_uuid or "")
    mine = [
        claim
        for claim in main_claims(state.claims_of(owner_id))
        if claim.state != INCOMING and (record is None or claim.uuid != record.claim_uuid)
    ]
    out = (claim for claim in mine if claim.migration_uuid == facts.uuid)
    if facts.migration_type != EVACUATION:
        mine.reverse()
    return next(out, mine[0] if mine else None)
