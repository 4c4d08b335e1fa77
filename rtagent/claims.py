"""The rules of claims, by the names of their calls, and of drains. Pure.

A `Rule` takes the state, the call, the time and what it decides on. It returns `Granted` (the
change, and the claims after it) or `Refused` (every reason), or raises a `RequestError` if the call
itself is wrong. Submit it with `ResourceTracker.create`, ``change`` or ``execute``.
"""

from collections.abc import Collection, Sequence
from datetime import datetime

from msgspec.structs import replace

from rtagent.allocation import requirements
from rtagent.allocation.requirements import Requirements
from rtagent.errors import ClaimConflict, ClaimNotFound, GuestRunning, NodeDraining
from rtagent.lifecycle.consequences import granted, unchanged
from rtagent.lifecycle.new_claim import fitted_claim
from rtagent.lifecycle.transitions import event_of, live
from rtagent.model.assignment import AssignedQuantity
from rtagent.model.change import Call, ended_operation
from rtagent.model.claim import LEASED_STATES, Claim
from rtagent.model.decision import Decision, Granted, Refused, created
from rtagent.model.node import Drain
from rtagent.model.node_state import NodeState
from rtagent.model.owners import main_claims
from rtagent.model.request import BuildRequest, InstanceFacts, InstanceUpdate, is_gone


def instance_claim(
    state: NodeState,
    call: Call,
    now: datetime,
    request: BuildRequest,
    required: Requirements | None = None,
    *,
    quantities: Sequence[AssignedQuantity] = (),
    active: bool = False,
) -> Decision:
    """Claim resources for a build: a claim in state `building`, leased.

    :param required: the requirements of the request under the node's policy, if they are known.
    :param quantities: that another service has decided on, as a fact that the embedding program
        knows.
    :param active: the domain is about to be started: the claim is in state `active`.
    :raises AllocationMismatch: its allocations are not what it needs.
    :raises ClaimConflict: the owner has a live claim, or another claim has the uuid.
    :raises NodeNotReady: the host was never observed.
    """
    owner_id = request.instance.uuid
    _check_no_claim(state, owner_id, call.operation_id)
    required = required or requirements.from_request(request, state.policy)
    claim = fitted_claim(state, call, now, request, required, quantities=quantities, active=active)
    return claim if isinstance(claim, Refused) else created(call, claim, now)


def activate_claim(state: NodeState, call: Call, now: datetime, claim_uuid: str) -> Decision:
    """Activate a claim before its domain is started: the lease ends here. A caller that receives
    `ClaimExpired` must not start the domain.

    :raises ClaimNotFound: IllegalTransition:
    """
    return granted(state, call, now, event_of(live(state, claim_uuid), "activate", state, now))


def renew_claim(state: NodeState, call: Call, now: datetime, claim_uuid: str) -> Decision:
    """Renew the lease of a claim; an active claim has none and is returned unchanged.

    :raises ClaimNotFound: IllegalTransition:
    """
    return granted(state, call, now, event_of(live(state, claim_uuid), "renew", state, now))


def release_claim(
    state: NodeState,
    call: Call,
    now: datetime,
    claim_uuid: str,
    reason: str = "",
    running: Collection[str] = (),
) -> Decision:
    """Release everything that a claim has.

    An unknown uuid is recorded as ended, so that a late creating call with that operation id is
    refused.

    :param reason: for the history.
    :param running: domains that run here. A claim of one of them is not ended.
    :raises GuestRunning: the claim's guest runs here.
    """
    return _end(state, call, now, "release", claim_uuid, reason, running)


def abort_instance_claim(
    state: NodeState,
    call: Call,
    now: datetime,
    claim_uuid: str,
    reason: str = "",
    running: Collection[str] = (),
) -> Decision:
    """Give up a build and release its claim, as `release_claim` does."""
    return _end(state, call, now, "abort", claim_uuid, reason, running)


def abort_leased_claim(state: NodeState, call: Call, now: datetime, claim_uuid: str) -> Decision:
    """Abort a claim whose lease runs, because its caller does not get it; any other claim, as one
    that was activated meanwhile, stays as it is.
    """
    claim = state.claims.get(claim_uuid)
    if claim is None or claim.state not in LEASED_STATES:
        return unchanged(call, now)
    return abort_instance_claim(state, call, now, claim_uuid)


def release_claims(
    state: NodeState,
    call: Call,
    now: datetime,
    owner_id: str,
    claim_uuids: Collection[str] | None = None,
    reason: str = "",
) -> Granted:
    """Release these claims of an owner, in whatever state they are: a fact that the embedding
    program states.

    A claim that has ended stays as it is. An unknown uuid is recorded as ended, so that a late
    creating call with that operation id is refused.

    :param claim_uuids: None: all claims of the owner. :param reason: for the history.
    :raises ClaimNotFound: a claim is another owner's.
    """
    claims = state.claims_of(owner_id)
    absent: list[str] = []
    if claim_uuids is not None:
        for uuid in sorted(claim_uuids):
            if uuid not in state.claims:
                absent.append(uuid)
            elif state.claims[uuid].owner_id != owner_id:
                raise ClaimNotFound(claim_uuid=uuid)
        claims = tuple(claim for claim in claims if claim.uuid in claim_uuids)
    events = (event_of(claim, "release", state, now, reason) for claim in claims)
    decision = granted(state, call, now, *events)
    operations = (*decision.change.operations, *map(ended_operation, absent))
    return replace(decision, change=replace(decision.change, operations=operations))


def update_usage(state: NodeState, call: Call, now: datetime, facts: InstanceUpdate) -> Decision:
    """Record an instance's new state, from which the statistics are made.

    An instance that is deleted or offloaded releases its claims, whatever move it takes part in.
    An instance without claims here changes nothing.
    """
    verb = "release" if is_gone(facts.vm_state, facts.task_state) else "update"
    events = (
        event_of(claim, verb, state, now, instance=_updated(claim, facts))
        for claim in state.claims_of(facts.uuid)
    )
    return granted(state, call, now, *events)


def build_failed(state: NodeState, call: Call, now: datetime) -> Decision:
    """Count one more failed build in a row: feeds ``stats.failed_builds``."""
    failed = state.failed_builds + 1
    return Granted(call.change(now, failed_builds=failed, operations=(call.operation(),)))


def build_succeeded(state: NodeState, call: Call, now: datetime) -> Decision:
    """End the row of failed builds."""
    return Granted(call.change(now, failed_builds=0, operations=(call.operation(),)))


def _end(
    state: NodeState,
    call: Call,
    now: datetime,
    verb: str,
    claim_uuid: str,
    reason: str,
    running: Collection[str],
) -> Decision:
    before = state.claims.get(claim_uuid)
    if before is None:
        operations = (call.operation(), ended_operation(claim_uuid))
        return Granted(call.change(now, operations=operations))
    if before.owner_id in running:
        raise GuestRunning(claim_uuid=claim_uuid, owner_id=before.owner_id)
    return granted(state, call, now, event_of(before, verb, state, now, reason))


def _check_no_claim(state: NodeState, owner_id: str, claim_uuid: str) -> None:
    claims = main_claims(state.claims_of(owner_id))
    if claims:
        raise ClaimConflict(
            f"instance {owner_id} has the live claim {claims[0].uuid} here",
            claim_uuid=claims[0].uuid,
            owner_id=owner_id,
        )
    if claim_uuid in state.claims:  # possible once its operation record has been purged
        raise ClaimConflict(f"claim {claim_uuid} is another instance's", claim_uuid=claim_uuid)


def _updated(claim: Claim, facts: InstanceUpdate) -> InstanceFacts:
    """The claim's instance as the update says. A task_state of None is a fact, too."""
    given = {name: getattr(facts, name) for name in InstanceFacts.__struct_fields__}
    known = {name: value for name, value in given.items() if value is not None}
    return replace(claim.instance, **{**known, "task_state": facts.task_state})


def check_not_draining(state: NodeState) -> None:
    """:raises NodeDraining: the node drains."""
    if (error := draining_error(state)) is not None:
        raise error


def draining_error(state: NodeState) -> NodeDraining | None:
    """Return the error that calls get which create claims; None: the node does not drain."""
    drain = state.drain
    if drain is None:
        return None
    return NodeDraining(
        str(drain),
        node=state.node.hypervisor_hostname,
        reason=drain.reason,
        deadline=drain.deadline.isoformat() if drain.deadline else None,
    )


def drain(
    state: NodeState, call: Call, now: datetime, reason: str, deadline: datetime | None
) -> Granted:
    """Begin to drain the node: it creates no claims from now on, and existing ones stay. If it
    drains already, replace reason and deadline."""
    since = state.drain.since if state.drain is not None else now
    new = Drain(since=since, reason=reason, deadline=deadline, actor=call.actor)
    return Granted(replace(unchanged(call, now).change, drain=new))


def undrain(state: NodeState, call: Call, now: datetime) -> Granted:
    """Let the node create claims again."""
    return Granted(replace(unchanged(call, now).change, undrained=state.drain is not None))
