"""Devices that are added to a guest, and taken from it: claims of kind `attach`, pure.

Beside the claim that the guest was built with, an owner may have any number of them. They end with
that claim, if not before.
"""

from __future__ import annotations

from datetime import datetime

from rtagent.errors import ClaimConflict, ClaimNotFound, NodeNotReady
from rtagent.model.assignment import Assignment
from rtagent.model.change import Call, Event
from rtagent.model.claim import ACTIVE, ATTACH, BUILDING, Claim
from rtagent.model.decision import Decision, Granted, Refused
from rtagent.model.host import HostState
from rtagent.model.request import AttachRequest
from rtagent.numa.constraints import constraints
from rtagent.pci.fit import Fitted as FittedDevices
from rtagent.pci.request import attached_requests
from rtagent.placing import device_fit
from rtagent.transitions import change, ended, granted, lease_end, live, moved, record


def claim_devices(state: HostState, request: AttachRequest, call: Call, now: datetime) -> Decision:
    """Hold devices for a guest that has a claim here: a claim in state `building`, leased. The NUMA
    policies are the requests' own, then the guest's.

    :raises ClaimNotFound: the instance has no live claim that they could be added to.
    :raises ClaimConflict: the uuid is another claim's.
    """
    if state.topology is None:
        raise NodeNotReady("what this host is made of is not known yet")
    owner = request.instance.uuid
    main = next((claim for claim in state.claims_of(owner) if claim.kind != ATTACH), None)
    if main is None:
        raise ClaimNotFound(owner_id=owner)
    if request.claim_uuid in state.claims:
        raise ClaimConflict(
            f"claim {request.claim_uuid} is there already", claim_uuid=request.claim_uuid
        )
    given = _fit(state, main, request)
    if isinstance(given, Refused):
        return given
    claim = _new_claim(state, request, given, now)
    return granted(state, call, now, Event(before=None, after=claim, action="create"))


def activate(
    state: HostState, owner_id: str, claim_uuid: str, call: Call, now: datetime
) -> Decision:
    """The devices are about to be given to the guest: the lease ends here.

    :raises ClaimNotFound: the instance has no such attach claim.
    """
    before = live(state, claim_uuid)
    if before.kind != ATTACH or before.owner_id != owner_id:
        raise ClaimNotFound(claim_uuid=claim_uuid)
    after = moved(before, "activate", state, now)
    return granted(state, call, now, Event(before=before, after=after, action="activate"))


def end(
    state: HostState,
    owner_id: str,
    claim_uuid: str | None,
    verb: str,
    call: Call,
    now: datetime,
) -> Decision:
    """Release attach claims of an instance: that one, or all that the verb is for.

    :param verb: ``unclaim`` for those that are building, ``free`` for those that are active.
    :raises ClaimNotFound: the claim is another instance's, or no attach claim.
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
        return Granted(change(call, now, operations=(record(call), ended(claim_uuid))))
    else:
        ends = (state.claims[claim_uuid],)
        if ends[0].kind != ATTACH or ends[0].owner_id != owner_id:
            raise ClaimNotFound(claim_uuid=claim_uuid)
    events = (
        Event(before=claim, after=moved(claim, verb, state, now), action=verb) for claim in ends
    )
    return granted(state, call, now, *events)


def _fit(state: HostState, main: Claim, request: AttachRequest) -> FittedDevices | Refused:
    policy = constraints(main.flavor, main.image).pci_numa_affinity_policy
    requests = attached_requests(request.pci_requests, state.policy.pci.aliases, policy)
    devices = device_fit(state, main.owner_id, requests)
    assert devices is not None, "something is asked for"
    return devices.fit(frozenset(cell.id for cell in (main.numa_topology or Assignment()).cells))


def _new_claim(
    state: HostState, request: AttachRequest, given: FittedDevices, now: datetime
) -> Claim:
    instance = request.instance
    return Claim(
        uuid=request.claim_uuid,
        host=state.node.host,
        node=state.node.hypervisor_hostname,
        node_uuid=state.node.uuid,
        owner_id=instance.uuid,
        kind=ATTACH,
        state=BUILDING,
        vcpus=0,
        memory_mb=0,
        disk_mb=0,
        # A clock that was set back must not make it the elder of those that it ends with.
        created_at=max(now, *(claim.created_at for claim in state.claims_of(instance.uuid))),
        updated_at=now,
        expires_at=lease_end(state, now),
        revision=state.revision + 1,
        instance=instance.facts(),
        flavor=instance.flavor,
        image=instance.image,
        pci_requests=request.pci_requests,
        pci=given.devices,
    )
