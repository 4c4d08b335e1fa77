"""Attach claims: devices that are added to a guest, and removed from it. Pure.

An owner may have any number of them besides its main claim. They end with that claim at the latest.
"""

from __future__ import annotations

from datetime import datetime

from msgspec.structs import replace

from rtagent.allocation.allocate import device_fit, reusable_by
from rtagent.errors import ClaimConflict, ClaimNotFound, NodeNotReady
from rtagent.lifecycle.consequences import granted
from rtagent.lifecycle.transitions import live, transition
from rtagent.model.assignment import Assignment
from rtagent.model.change import Call, Event, ended_operation
from rtagent.model.claim import ACTIVE, ATTACH, BUILDING, Claim
from rtagent.model.decision import Decision, Granted, Refused, created
from rtagent.model.new_claim import new_claim
from rtagent.model.node_state import NodeState
from rtagent.model.request import AttachRequest, BuildRequest
from rtagent.numa.requirements import numa_requirements
from rtagent.pci.fit import FittedDevices
from rtagent.pci.requests import attached_requests


def claim_devices(state: NodeState, request: AttachRequest, call: Call, now: datetime) -> Decision:
    """Claim devices for a guest that has a claim here: a claim in state `building`, leased.

    A request's own NUMA policy applies; without one, the guest's does.

    :raises ClaimNotFound: the instance has no live claim that they could be added to.
    :raises ClaimConflict: another claim has the uuid.
    :raises NodeNotReady: the host was never observed.
    """
    if state.topology is None:
        raise NodeNotReady("what this host is made of is not known yet")
    owner = request.instance.uuid
    main = next((claim for claim in state.claims_of(owner) if claim.kind != ATTACH), None)
    if main is None:
        raise ClaimNotFound(owner_id=owner)
    if call.operation_id in state.claims:
        raise ClaimConflict(
            f"claim {call.operation_id} exists already", claim_uuid=call.operation_id
        )
    fitted = _fit(state, main, request)
    if isinstance(fitted, Refused):
        return fitted
    instance = replace(request.instance, pci_requests=request.pci_requests)
    claim = replace(
        new_claim(state, BuildRequest(instance=instance), call, now),
        kind=ATTACH,
        pci=fitted.devices,
    )
    return created(call, claim, now)


def activate(
    state: NodeState, owner_id: str, claim_uuid: str, call: Call, now: datetime
) -> Decision:
    """Activate an attach claim before its devices are attached to the guest: the lease ends here.

    :raises ClaimNotFound: the instance has no such attach claim.
    """
    before = live(state, claim_uuid)
    if before.kind != ATTACH or before.owner_id != owner_id:
        raise ClaimNotFound(claim_uuid=claim_uuid)
    after = transition(before, "activate", state, now)
    return granted(state, call, now, Event(before=before, after=after, action="activate"))


def end(
    state: NodeState,
    owner_id: str,
    claim_uuid: str | None,
    verb: str,
    call: Call,
    now: datetime,
) -> Decision:
    """Release one attach claim of an instance, or all that are in the verb's state.

    :param verb: ``unclaim`` for building claims, ``free`` for active ones.
    :raises ClaimNotFound: the claim is another instance's, or not an attach claim.
    :raises IllegalTransition: the claim is not in the verb's state.
    """
    if claim_uuid is None:
        its_state = {"unclaim": BUILDING, "free": ACTIVE}[verb]
        ends = tuple(
            claim
            for claim in state.claims_of(owner_id)
            if claim.kind == ATTACH and claim.state == its_state
        )
    elif claim_uuid not in state.claims:
        operations = (call.operation(), ended_operation(claim_uuid))
        return Granted(call.change(now, operations=operations))
    else:
        ends = (state.claims[claim_uuid],)
        if ends[0].kind != ATTACH or ends[0].owner_id != owner_id:
            raise ClaimNotFound(claim_uuid=claim_uuid)
    events = (
        Event(before=claim, after=transition(claim, verb, state, now), action=verb)
        for claim in ends
    )
    return granted(state, call, now, *events)


def _fit(state: NodeState, main: Claim, request: AttachRequest) -> FittedDevices | Refused:
    flavor, owner = main.flavor, main.owner_id
    numa = numa_requirements(
        flavor.vcpus, flavor.memory_mb, flavor.extra_specs, main.image.properties
    )
    policy = numa.pci_numa_affinity_policy
    requests = attached_requests(request.pci_requests, state.policy.pci.aliases, policy)
    devices = device_fit(state, owner, requests, reusable_by(state, owner, ()))
    assert devices is not None, "an attach request names at least one device"
    cells = (main.numa_topology or Assignment()).cells
    return devices.fit(frozenset(cell.id for cell in cells))
