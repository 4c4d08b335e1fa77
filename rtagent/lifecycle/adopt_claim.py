"""Adopt a claim: record what an instance has here already, as a fact that its caller states. Pure.

Nothing is allocated and no amount is judged: the instance has what it has. Only a unit that another
owner holds is refused, because a unit has one owner (P6). A host CPU on which only a domain of
another one runs is not held.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime

from msgspec.structs import replace

from rtagent.errors import ClaimConflict, InvariantViolated, NodeNotReady, UnitConflict
from rtagent.lifecycle.consequences import granted
from rtagent.lifecycle.moves.context import check_same_move, new_record
from rtagent.lifecycle.new_claim import new_claim
from rtagent.lifecycle.placed_guests import isolated, placed, requirements_of, usage_of
from rtagent.lifecycle.stated_units import (
    completed_device,
    completed_resource,
    held_by_others,
    unrecorded,
)
from rtagent.lifecycle.transitions import event_of, live
from rtagent.model.assignment import AssignedResource, Assignment
from rtagent.model.change import Call
from rtagent.model.claim import ATTACH, BUILD, OUTGOING, Claim
from rtagent.model.decision import Granted, created
from rtagent.model.guest import AdoptRequest
from rtagent.model.mem_encryption import encryption_of
from rtagent.model.migration import ARRIVED_STATUS, DEST, MOVING_STATUS, SOURCE, Migration
from rtagent.model.node_state import NodeState
from rtagent.model.owners import main_claims
from rtagent.model.request import BuildRequest
from rtagent.model.usage import NOTHING


def adopt_claim(state: NodeState, call: Call, now: datetime, request: AdoptRequest) -> Granted:
    """Make a claim of exactly what the request states: active, or outgoing at the source of a move.
    What a build's claim has besides follows from its flavor and the configuration, as for a build.
    It is a fact: submit it as a ``change``, so that it is recorded even while no claim is created.

    A device that has no record, because no specification matches it, gets one: it stays recorded as
    long as it is held (P10).

    :raises ClaimConflict: the owner's claims here do not allow another; the claim's uuid or the
        migration is another's.
    :raises UnitConflict: another owner holds a unit of it.
    :raises NodeNotReady: the host was never observed.
    """
    if state.topology is None:
        raise NodeNotReady("what this host is made of is not known yet")
    _check_no_conflict(state, request, call)
    devices = unrecorded(state, request.devices)
    known = replace(state, devices=state.devices.changed((), devices))
    claim = _claim(known, request, call, now)
    _check_not_held(known, claim)
    migrations, reason = tuple(_records(state, request, claim, now)), "it is here already"
    adopted = created(call, claim, now, "adopt", reason, devices=devices, migrations=migrations)
    try:
        state.fold(adopted.change).check_owners(adopted.change.owners)
    except InvariantViolated as error:  # the request contradicts itself
        raise ClaimConflict(error.message, owner_id=claim.owner_id) from error
    return adopted


def adopt_mdevs(
    state: NodeState, call: Call, now: datetime, claim_uuid: str, mdevs: Iterable[AssignedResource]
) -> Granted:
    """Record the mediated devices that a claim's guest has, or is about to have, in place of those
    that the claim has: a fact as well. The claim keeps everything else.

    :param mdevs: with class, identifier and parent device.
    :raises ClaimNotFound: the claim is not live. :raises UnitConflict: another owner holds one.
    """
    claim = live(state, claim_uuid)
    taken = tuple(completed_resource(state, each) for each in mdevs)
    _check_not_held(state, replace(claim, numa_topology=None, pci=(), resources=taken))
    kept = (each for each in claim.resources if each.parent_addr is None)
    reason = ", ".join(each.identifier for each in taken) or "none"
    resources = (*kept, *taken)
    event = event_of(claim, "adopt_mdevs", state, now, reason, resources=resources)
    return granted(state, call, now, event)


def _check_not_held(state: NodeState, claim: Claim) -> None:
    """:raises UnitConflict: another owner holds a unit of the claim."""
    if held := held_by_others(state, claim):
        conflicts = [each.as_dict() for each in held]
        raise UnitConflict(owner_id=claim.owner_id, conflicts=conflicts)


def _check_no_conflict(state: NodeState, request: AdoptRequest, call: Call) -> None:
    """:raises ClaimConflict: see `adopt_claim`."""
    owner_id, facts = request.instance.uuid, request.migration
    if facts is not None:
        check_same_move(state.migrations.get(facts.uuid), owner_id, facts)
    claim = state.claims.get(call.operation_id) or _blocking(state, request)
    if claim is not None:
        raise ClaimConflict(
            f"instance {claim.owner_id} has the {claim.state} claim {claim.uuid} here",
            claim_uuid=claim.uuid,
            owner_id=claim.owner_id,
        )


def _blocking(state: NodeState, request: AdoptRequest) -> Claim | None:
    """Return the claim beside which the owner cannot have this one.

    An owner has one main claim, or two during a move.
    """
    mains, facts = main_claims(state.claims_of(request.instance.uuid)), request.migration
    if request.attached:
        return None
    if len(mains) > 1:
        return mains[0]
    if facts is None:
        return next((each for each in mains if each.kind == BUILD), None)
    at_source = request.role == SOURCE
    same_move = (each for each in mains if each.migration_uuid == facts.uuid)
    return next((each for each in same_move if (each.state == OUTGOING) == at_source), None)


def _claim(state: NodeState, request: AdoptRequest, call: Call, now: datetime) -> Claim:
    assignment = _assignment(state, request)
    usage = NOTHING
    if not request.attached:
        usage = usage_of(request.instance, assignment or Assignment())
    build = BuildRequest(instance=request.instance)
    claim = new_claim(state, call, now, build, usage, active=True)
    facts = None if request.attached else request.migration
    at_source = facts is not None and request.role == SOURCE
    return replace(
        claim,
        state=OUTGOING if at_source else claim.state,
        kind=_kind(state, request),
        migration_uuid=facts.uuid if facts is not None else None,
        numa_topology=assignment,
        pci=tuple(completed_device(state, each) for each in request.devices),
        resources=tuple(completed_resource(state, each) for each in request.resources),
        quantities=request.quantities,
        mem_encryption=encryption_of(each.pool for each in request.quantities),
    )


def _kind(state: NodeState, request: AdoptRequest) -> str:
    """Return the claim's kind. Of two main claims, at most one is a build's."""
    if request.attached:
        return ATTACH
    if request.migration is None:
        return BUILD
    mains = main_claims(state.claims_of(request.instance.uuid))
    if request.role == SOURCE and all(each.kind != BUILD for each in mains):
        return BUILD
    return request.migration.migration_type


def _assignment(state: NodeState, request: AdoptRequest) -> Assignment | None:
    """Return what the guest is assigned, with idle thread siblings if its flavor isolates it and
    the request names none.
    """
    if request.attached:
        return None
    required = requirements_of(request.instance.flavor, request.instance.image)
    assignment = placed(state, required, request.numa_topology)
    return assignment if assignment.kept else isolated(state, required, assignment)


def _records(
    state: NodeState, request: AdoptRequest, claim: Claim, now: datetime
) -> Iterator[Migration]:
    """Yield the node's record of the claim's move. Of a move on one host it is the destination's.

    A new record has the status that the caller names, else that of a guest that is under way from
    the source, or has arrived.
    """
    facts, role = request.migration, request.role
    if facts is None or request.attached:
        return
    record, statuses = state.migrations.get(facts.uuid), ARRIVED_STATUS
    if role == SOURCE:
        if record is not None and record.role == DEST:
            return
        statuses = MOVING_STATUS
    status = facts.status or statuses[facts.migration_type]
    if record is None:
        record = new_record(state.node, claim.owner_id, facts, status, role, claim.uuid, now)
    yield replace(record, status=status, role=role, claim_uuid=claim.uuid, updated_at=now)
