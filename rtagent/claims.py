"""The rules of claims, pure: who may have what, and which state follows which.

Every rule takes the state and returns `Granted` (the change, and the claims as they are then) or
`Refused` (every reason), or raises a `RequestError` where the call itself is wrong.
"""

from __future__ import annotations

from datetime import datetime

from msgspec.structs import replace

from rtagent import demand
from rtagent.demand import Demand
from rtagent.errors import ClaimConflict
from rtagent.model.change import Call, Event
from rtagent.model.claim import BUILDING, Claim
from rtagent.model.decision import Decision, Granted, Refused
from rtagent.model.host import HostState
from rtagent.model.instance import InstanceFacts, InstanceUpdate, is_gone
from rtagent.model.request import BuildRequest
from rtagent.pci.request import DeviceRequest, device_requests
from rtagent.placing import place
from rtagent.transitions import change, ended, granted, lease_end, live, moved, record


def build(state: HostState, request: BuildRequest, call: Call, now: datetime) -> Decision:
    """Hold resources for a build: a claim in state `building`, leased.

    :raises ClaimConflict: the owner has a live claim.
    :raises NodeNotReady: what the host is made of is not known yet.
    """
    owner = request.instance.uuid
    live_claims = state.claims_of(owner)
    if live_claims:
        raise ClaimConflict(
            f"instance {owner} has the live claim {live_claims[0].uuid} here",
            claim_uuid=live_claims[0].uuid,
            owner_id=owner,
        )
    if request.claim_uuid in state.claims:  # its record may be forgotten by now, it is not
        raise ClaimConflict(
            f"claim {request.claim_uuid} is another instance's", claim_uuid=request.claim_uuid
        )
    asked = demand.of(request)
    bare = new_claim(state, request, asked, now)
    claim = place(state, bare, asked, _devices(state, request, asked))
    if isinstance(claim, Refused):
        return claim
    return granted(state, call, now, Event(before=None, after=claim, action="create"))


def activate(state: HostState, claim_uuid: str, call: Call, now: datetime) -> Decision:
    """The domain is about to be started: the lease ends here.

    :raises ClaimNotFound: IllegalTransition:
    """
    before = live(state, claim_uuid)
    after = moved(before, "activate", state, now)
    return granted(state, call, now, Event(before=before, after=after, action="activate"))


def renew(state: HostState, claim_uuid: str, call: Call, now: datetime) -> Decision:
    """A new lease for a building claim; an active one needs none and is returned as it is.

    :raises ClaimNotFound: IllegalTransition:
    """
    before = live(state, claim_uuid)
    after = moved(before, "renew", state, now)
    return granted(state, call, now, Event(before=before, after=after, action="renew"))


def end(state: HostState, claim_uuid: str, verb: str, call: Call, now: datetime) -> Decision:
    """Release (or abort) a claim, wholly. Of an id that is not live: recorded as ended, so that a
    creating call that arrives after its own abort is refused.

    :param verb: ``release`` or ``abort``.
    """
    before = state.claims.get(claim_uuid)
    if before is None:
        return Granted(change(call, now, operations=(record(call), ended(claim_uuid))))
    after = moved(before, verb, state, now)
    return granted(state, call, now, Event(before=before, after=after, action=verb))


def update(state: HostState, news: InstanceUpdate, call: Call, now: datetime) -> Decision:
    """An instance's new state: feeds the statistics. One that is deleted or offloaded holds nothing
    any more, whatever move it was in. An instance without claims here changes nothing."""
    verb = "release" if is_gone(news.vm_state, news.task_state) else "update"
    events = tuple(
        Event(before=before, after=_updated(before, news, verb, state, now), action=verb)
        for before in state.claims_of(news.uuid)
    )
    return granted(state, call, now, *events)


def count_build(state: HostState, succeeded: bool, call: Call, now: datetime) -> Decision:
    """A build has failed (one more) or succeeded (none any more): feeds ``stats.failed_builds``."""
    failed = 0 if succeeded else state.failed_builds + 1
    return Granted(change(call, now, failed_builds=failed, operations=(record(call),)))


def _updated(
    claim: Claim, news: InstanceUpdate, verb: str, state: HostState, now: datetime
) -> Claim:
    told = {name: getattr(news, name) for name in InstanceFacts.__struct_fields__}
    kept = {name: value for name, value in told.items() if value is not None}
    facts = replace(claim.instance, **{**kept, "task_state": news.task_state})
    return moved(claim, verb, state, now, instance=facts)


def _devices(state: HostState, request: BuildRequest, asked: Demand) -> tuple[DeviceRequest, ...]:
    instance, aliases = request.instance, state.policy.pci.aliases
    policy = asked.place.pci_numa_affinity_policy
    return device_requests(instance.flavor, instance.pci_requests, aliases, policy)


def new_claim(state: HostState, request: BuildRequest, asked: Demand, now: datetime) -> Claim:
    """What a build is given, but for its place and the things that it gets."""
    instance = request.instance
    return Claim(
        uuid=request.claim_uuid,
        host=state.node.host,
        node=state.node.hypervisor_hostname,
        node_uuid=state.node.uuid,
        owner_id=instance.uuid,
        state=BUILDING,
        vcpus=asked.vcpus,
        pcpus=asked.pcpus,
        memory_mb=asked.memory_mb,
        disk_mb=asked.disk_mb,
        created_at=now,
        updated_at=now,
        expires_at=lease_end(state, now),
        revision=state.revision + 1,
        instance=instance.facts(),
        flavor=instance.flavor,
        image=instance.image,
        limits=request.limits,
        pci_requests=instance.pci_requests,
        extra_resource=request.extra_resource,
        tag=request.tag,
    )
