"""The destination's side: a guest is expected, and arrives."""

from __future__ import annotations

from datetime import datetime

from msgspec.structs import replace

from rtagent import claims, demand
from rtagent.demand import Demand
from rtagent.errors import ClaimConflict
from rtagent.model.change import Call, Event
from rtagent.model.claim import (
    BUILDING,
    INCOMING,
    LIVE_MIGRATION,
    MIGRATION,
    RESIZE,
    Claim,
    Replacement,
)
from rtagent.model.decision import Decision, Granted, Refused
from rtagent.model.host import HostState
from rtagent.model.migration import ARRIVED, BEGUN, DEST, ENDED, RETURNED, Migration, MigrationFacts
from rtagent.model.move import MoveRequest
from rtagent.model.owners import main_claims
from rtagent.moves.parties import Parties, noted, parties
from rtagent.numa.constraints import with_page_sizes
from rtagent.pci.fit import by_purpose
from rtagent.pci.request import DeviceRequest, device_requests, moved_requests
from rtagent.placing import place, shared_with
from rtagent.transitions import granted, moved


def move_claim(state: HostState, request: MoveRequest, call: Call, now: datetime) -> Decision:
    """Hold resources for a guest that is to arrive: a claim in state `incoming`, leased, and the
    destination's record of the move. What its owner holds here already is offered to it first.

    :raises ClaimConflict: the owner has claims here that leave no room for another; the migration
        is under way here, or has ended. :raises NodeNotReady:
    """
    told = request.migration or _own_facts(state, request)
    move = parties(state, request.build.instance.uuid, told)
    _check_free(state, move, request.build.claim_uuid)
    asked = _demand(request)
    bare = replace(
        claims.new_claim(state, request.build, asked, now),
        state=INCOMING,
        kind=request.kind,
        migration_uuid=told.uuid,
    )
    held = state.claims_of(bare.owner_id)
    placed = place(state, bare, asked, _devices(state, request, asked), shared_with(held))
    if isinstance(placed, Refused):
        return placed
    claim = replace(placed, pci_replaced=_replaced(request, held, placed))
    record = _record(state, request, move, claim, now)
    return granted(
        state, call, now, Event(before=None, after=claim, action="create"), migrations=(record,)
    )


def finish(
    state: HostState, owner_id: str, told: MigrationFacts, call: Call, now: datetime
) -> Granted:
    """The guest is here: ``finish_move``, or ``finish_evacuation``, whichever is called.

    :raises ClaimNotFound: ClaimExpired: IllegalTransition: ClaimConflict:
    """
    move = parties(state, owner_id, told)
    before = move.dest
    if before is None:
        raise move.no_dest()
    if move.status in RETURNED:
        raise move.too_late(call.method, "drop_move_claim_at_dest, drop_move_claim")
    if before.migration_uuid != told.uuid:
        raise move.moved_on(before, call.method)
    after = moved(before, call.method, state, now)
    status = move.status if move.status in ENDED else ARRIVED[told.migration_type]
    return granted(
        state,
        call,
        now,
        Event(before=before, after=after, action=call.method),
        migrations=(noted(state, move, DEST, after, str(status), now),),
    )


def _check_free(state: HostState, move: Parties, claim_uuid: str) -> None:
    if claim_uuid in state.claims:  # its record may be forgotten by now, it is not
        raise _conflict(f"claim {claim_uuid} is another call's", claim_uuid)
    mains = main_claims(state.claims_of(move.owner_id))
    busy = [claim for claim in mains if claim.state in (BUILDING, INCOMING)] or list(mains[1:])
    if busy:
        what = f"instance {move.owner_id} has the {busy[0].state} claim {busy[0].uuid} here"
        raise _conflict(what, busy[0].uuid)
    if move.status in ENDED or move.dest is not None:
        uuid = move.told.uuid
        raise ClaimConflict(f"migration {uuid} is {move.status} here", migration_uuid=uuid)


def _conflict(what: str, claim_uuid: str) -> ClaimConflict:
    return ClaimConflict(what, claim_uuid=claim_uuid)


def _demand(request: MoveRequest) -> Demand:
    asked, sizes = demand.of(request.build), request.source.page_sizes
    if request.kind != LIVE_MIGRATION or not sizes:
        return asked
    return replace(asked, place=with_page_sizes(asked.place, sizes))


def _devices(state: HostState, request: MoveRequest, asked: Demand) -> tuple[DeviceRequest, ...]:
    """A guest that keeps its flavor keeps its requests."""
    instance, aliases = request.build.instance, state.policy.pci.aliases
    derive = moved_requests if request.kind in (RESIZE, MIGRATION) else device_requests
    policy = asked.place.pci_numa_affinity_policy
    return derive(instance.flavor, instance.pci_requests, aliases, policy)


def _replaced(
    request: MoveRequest, held: tuple[Claim, ...], placed: Claim
) -> dict[str, Replacement]:
    """What becomes of the devices that the guest has where it is: here, or as it was told."""
    here = by_purpose(device for claim in held for device in claim.pci)
    before, after = here or request.source.devices, by_purpose(placed.pci)
    return {
        purpose: Replacement(before=before.get(purpose, ()), after=after.get(purpose, ()))
        for purpose in dict.fromkeys((*before, *after))
    }


def _own_facts(state: HostState, request: MoveRequest) -> MigrationFacts:
    """Of a move that no caller has a record of; where the guest comes from is known only if it
    comes from here."""
    here = bool(main_claims(state.claims_of(request.build.instance.uuid)))
    return MigrationFacts(
        uuid=request.build.claim_uuid,
        migration_type=request.kind,
        source_compute=state.node.host if here else None,
        source_node=state.node.hypervisor_hostname if here else None,
    )


def _record(
    state: HostState, request: MoveRequest, move: Parties, claim: Claim, now: datetime
) -> Migration:
    """The destination's record, with what it knows itself where nobody told it."""
    told, node = move.told, state.node
    status = move.status or told.status or BEGUN[told.migration_type]
    record = noted(state, move, DEST, claim, status, now)
    return replace(
        record,
        role=DEST,
        claim_uuid=claim.uuid,
        dest_compute=told.dest_compute or node.host,
        dest_node=told.dest_node or node.hypervisor_hostname,
        dest_host=told.dest_host or node.host_ip,
        old_flavor=told.old_flavor or request.old_flavor,
        new_flavor=told.new_flavor or request.build.instance.flavor,
    )
