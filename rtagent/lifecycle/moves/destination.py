"""The destination of a move: a guest is expected, and arrives."""

from collections.abc import Sequence
from datetime import datetime

from msgspec.structs import replace

from rtagent.allocation import requirements
from rtagent.errors import ClaimConflict
from rtagent.lifecycle.moves.context import MoveContext, move_context, move_rule
from rtagent.lifecycle.new_claim import fitted_claim
from rtagent.model import migration
from rtagent.model.assignment import AssignedQuantity
from rtagent.model.change import Call
from rtagent.model.claim import BUILDING, INCOMING, Claim, Replacement
from rtagent.model.decision import Decision, Granted, Refused, created
from rtagent.model.device import AssignedDevice
from rtagent.model.node_state import NodeState
from rtagent.model.owners import main_claims
from rtagent.pci.fit import addresses_by_purpose


def move_claim(
    state: NodeState,
    call: Call,
    now: datetime,
    request: migration.MoveRequest,
    *,
    quantities: Sequence[AssignedQuantity] = (),
) -> Decision:
    """Claim resources for a guest that is to arrive: a claim in state `incoming`, leased, and the
    destination's record of the move. What the owner has here already is reused first.

    :param quantities: as of `rtagent.claims.instance_claim`.
    :raises AllocationMismatch: its allocations are not what it needs.
    :raises ClaimConflict: the owner's claims here do not allow another; the migration is under way
        here, or has ended.
    :raises NodeNotReady: the host was never observed.
    """
    owner_id = request.build.instance.uuid
    facts = _facts(state, request, call)
    move = move_context(state, owner_id, facts, call.method, call, now)
    _check_no_conflict(move)
    required = requirements.from_move(request, state.policy)
    claim = fitted_claim(
        state, call, now, request.build, required, kind=request.kind, quantities=quantities
    )
    if isinstance(claim, Refused):
        return claim
    claim = replace(
        claim,
        state=INCOMING,
        migration_uuid=facts.uuid,
        pci_replaced=_replacements(request, state.claims_of(owner_id), claim.pci),
    )
    return created(call, claim, now, migrations=(_record(move, request, claim),))


@move_rule
def finish_move(move: MoveContext) -> Granted:
    """Activate the claim of a guest that has arrived.

    :raises ClaimNotFound: ClaimExpired: IllegalTransition:
    """
    return _arrived(move)


@move_rule
def finish_evacuation(move: MoveContext) -> Granted:
    """The same, of a guest whose host is lost."""
    return _arrived(move)


def _arrived(move: MoveContext) -> Granted:
    before = move.dest
    if before is None:
        raise move.no_dest()
    if move.status in migration.RETURNED:
        raise move.too_late("drop_move_claim_at_dest, drop_move_claim")
    if before.migration_uuid != move.facts.uuid:
        raise move.other_move(before)
    ended = move.status in migration.ENDED
    status = str(move.status) if ended else migration.ARRIVED_STATUS[move.facts.migration_type]
    return move.granted(move.record_with(status, migration.DEST, before), move.event(before))


def _facts(
    state: NodeState, request: migration.MoveRequest, call: Call
) -> migration.MigrationFacts:
    """The caller's record of the move, or one that the agent makes. It names the source only if the
    guest is here."""
    if isinstance(request.migration, migration.MigrationFacts):
        return request.migration
    here = bool(main_claims(state.claims_of(request.build.instance.uuid)))
    return migration.MigrationFacts(
        uuid=call.operation_id,
        migration_type=request.migration,
        source_compute=state.node.host if here else None,
        source_node=state.node.hypervisor_hostname if here else None,
    )


def _check_no_conflict(move: MoveContext) -> None:
    claim_uuid = move.call.operation_id
    if claim_uuid in move.state.claims:  # possible once its operation record has been purged
        raise ClaimConflict(f"claim {claim_uuid} is another call's", claim_uuid=claim_uuid)
    mains = main_claims(move.state.claims_of(move.owner_id))
    blocking = [claim for claim in mains if claim.state in (BUILDING, INCOMING)] or list(mains[1:])
    if blocking:
        claim = blocking[0]
        raise ClaimConflict(
            f"instance {move.owner_id} has the {claim.state} claim {claim.uuid} here",
            claim_uuid=claim.uuid,
        )
    if move.status in migration.ENDED or move.dest is not None:
        uuid = move.facts.uuid
        raise ClaimConflict(f"migration {uuid} is {move.status} here", migration_uuid=uuid)


def _replacements(
    request: migration.MoveRequest, own: tuple[Claim, ...], devices: tuple[AssignedDevice, ...]
) -> dict[str, Replacement]:
    """The guest's devices before and after, by purpose. Before: those of its claims here, else
    those that the caller names."""
    here = addresses_by_purpose(device for claim in own for device in claim.pci)
    before, after = here or request.source.devices, addresses_by_purpose(devices)
    return {
        purpose: Replacement(before=before.get(purpose, ()), after=after.get(purpose, ()))
        for purpose in dict.fromkeys((*before, *after))
    }


def _record(move: MoveContext, request: migration.MoveRequest, claim: Claim) -> migration.Migration:
    """The destination's record. The agent fills in what the caller does not name."""
    facts, node = move.facts, move.state.node
    status = move.status or facts.status or migration.INITIAL_STATUS[facts.migration_type]
    return replace(
        move.record_with(status, migration.DEST, claim),
        role=migration.DEST,
        claim_uuid=claim.uuid,
        dest_compute=facts.dest_compute or node.host,
        dest_node=facts.dest_node or node.hypervisor_hostname,
        dest_host=facts.dest_host or node.host_ip,
        old_flavor=facts.old_flavor or request.old_flavor,
        new_flavor=facts.new_flavor or request.build.instance.flavor,
    )
