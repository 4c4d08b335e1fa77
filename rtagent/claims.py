"""The rules of claims, pure: who may have what, and which state follows which.

Every rule takes the state and returns `Granted` (the change, and the claims as they are then) or
`Refused` (every reason), or raises a `RequestError` where the call itself is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from msgspec.structs import replace

from rtagent import amounts, demand
from rtagent.demand import Demand
from rtagent.errors import ClaimConflict, ClaimNotFound, IllegalTransition, NodeNotReady
from rtagent.model.change import Call, Change, Event, Operation
from rtagent.model.claim import ACTIVE, BUILDING, LEASED_STATES, RELEASED, Claim
from rtagent.model.decision import Decision, Granted, Reason, ReasonCode, Refused, refuse
from rtagent.model.host import HostState
from rtagent.model.instance import GONE_STATES, InstanceFacts, InstanceUpdate
from rtagent.model.request import BuildRequest
from rtagent.numa.fit import Fitted, fit
from rtagent.numa.host import Host
from rtagent.numa.limits import cell_limits

#: What each verb makes of each state; a pair that is not here is illegal.
LIFE_CYCLE: Mapping[str, Mapping[str, str]] = {
    "activate": {BUILDING: ACTIVE, ACTIVE: ACTIVE},
    "renew": {BUILDING: BUILDING, ACTIVE: ACTIVE},
    "update": {BUILDING: BUILDING, ACTIVE: ACTIVE},
    "abort": {BUILDING: RELEASED, ACTIVE: RELEASED},
    "release": {BUILDING: RELEASED, ACTIVE: RELEASED},
    # the audit's own verbs
    "appear": {BUILDING: ACTIVE},
    "expire": {BUILDING: RELEASED},
    "suspect": {ACTIVE: ACTIVE},
    "trust": {ACTIVE: ACTIVE},
}


def build(state: HostState, request: BuildRequest, call: Call, now: datetime) -> Decision:
    """Hold resources for a build: a claim in state `building`, leased.

    :raises ClaimConflict: the owner has a live claim.
    :raises NodeNotReady: what the host is made of is not known yet.
    """
    if state.topology is None:
        raise NodeNotReady("what this host is made of is not known yet")
    live = state.claims_of(request.instance.uuid)
    if live:
        raise ClaimConflict(
            f"instance {request.instance.uuid} has the live claim {live[0].uuid} here",
            claim_uuid=live[0].uuid,
            owner_id=request.instance.uuid,
        )
    if request.claim_uuid in state.claims:  # its record may be forgotten by now, it is not
        raise ClaimConflict(
            f"claim {request.claim_uuid} is another instance's", claim_uuid=request.claim_uuid
        )
    asked = demand.of(request)
    placed = fit(
        asked.place, _host(state, request), cell_limits(request.limits.numa_topology, state.policy)
    )
    claim = _new_claim(state, request, asked, now)
    reasons = (*_reasons(state, claim, asked), *_unplaced(placed))
    if isinstance(placed, Refused) or reasons:
        return refuse(dict.fromkeys(reasons))
    claim = replace(claim, numa_topology=placed.assignment)
    return _granted(state, call, now, Event(before=None, after=claim, action="create"))


def activate(state: HostState, claim_uuid: str, call: Call, now: datetime) -> Decision:
    """The domain is about to be started: the lease ends here.

    :raises ClaimNotFound: IllegalTransition:
    """
    before = _live(state, claim_uuid)
    after = moved(before, "activate", state, now)
    return _granted(state, call, now, Event(before=before, after=after, action="activate"))


def renew(state: HostState, claim_uuid: str, call: Call, now: datetime) -> Decision:
    """A new lease for a building claim; an active one needs none and is returned as it is.

    :raises ClaimNotFound: IllegalTransition:
    """
    before = _live(state, claim_uuid)
    after = moved(before, "renew", state, now)
    return _granted(state, call, now, Event(before=before, after=after, action="renew"))


def end(state: HostState, claim_uuid: str, verb: str, call: Call, now: datetime) -> Decision:
    """Release (or abort) a claim, wholly. Of an id that is not live: recorded as ended, so that a
    creating call that arrives after its own abort is refused.

    :param verb: ``release`` or ``abort``.
    """
    before = state.claims.get(claim_uuid)
    if before is None:
        return Granted(_change(call, now, operations=(_record(call), _ended(claim_uuid))))
    after = moved(before, verb, state, now)
    return _granted(state, call, now, Event(before=before, after=after, action=verb))


def update(state: HostState, news: InstanceUpdate, call: Call, now: datetime) -> Decision:
    """An instance's new state: feeds the statistics; ``deleted`` and ``shelved_offloaded`` release.
    An instance without claims here changes nothing."""
    verb = "release" if news.vm_state in GONE_STATES else "update"
    events = tuple(
        Event(before=before, after=_updated(before, news, verb, state, now), action=verb)
        for before in state.claims_of(news.uuid)
    )
    return _granted(state, call, now, *events)


def count_build(state: HostState, succeeded: bool, call: Call, now: datetime) -> Decision:
    """A build has failed (one more) or succeeded (none any more): feeds ``stats.failed_builds``."""
    failed = 0 if succeeded else state.failed_builds + 1
    return Granted(_change(call, now, failed_builds=failed, operations=(_record(call),)))


def moved(claim: Claim, verb: str, state: HostState, now: datetime, **other: object) -> Claim:
    """The claim after a verb of the life cycle, stamped and leased as its new state demands.

    :raises IllegalTransition: naming the state and the verbs that are legal there.
    """
    target = LIFE_CYCLE[verb].get(claim.state)
    if target is None:
        legal = ", ".join(sorted(v for v, states in LIFE_CYCLE.items() if claim.state in states))
        raise IllegalTransition(
            claim_uuid=claim.uuid, state=claim.state, verb=verb, legal=legal or "none"
        )
    fields = {"updated_at": now, "revision": state.revision + 1, "state": target, **other}
    if target not in LEASED_STATES:
        fields["expires_at"] = None
    elif verb == "renew":
        fields["expires_at"] = _lease_end(state, now)
    return replace(claim, **fields)


def _updated(
    claim: Claim, news: InstanceUpdate, verb: str, state: HostState, now: datetime
) -> Claim:
    told = {name: getattr(news, name) for name in InstanceFacts.__struct_fields__}
    kept = {name: value for name, value in told.items() if value is not None}
    facts = replace(claim.instance, **{**kept, "task_state": news.task_state})
    return moved(claim, verb, state, now, instance=facts)


def _live(state: HostState, claim_uuid: str) -> Claim:
    claim = state.claims.get(claim_uuid)
    if claim is None:
        raise ClaimNotFound(claim_uuid=claim_uuid)
    return claim


def _lease_end(state: HostState, now: datetime) -> datetime:
    return now + timedelta(seconds=state.policy.claim_expiry_time)


def _new_claim(state: HostState, request: BuildRequest, asked: Demand, now: datetime) -> Claim:
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
        expires_at=_lease_end(state, now),
        revision=state.revision + 1,
        instance=instance.facts(),
        flavor=instance.flavor,
        image=instance.image,
        limits=request.limits,
        pci_requests=instance.pci_requests,
        extra_resource=request.extra_resource,
        tag=request.tag,
    )


def _host(state: HostState, request: BuildRequest) -> Host:
    """What there is to fit onto: an orphan that is adopted does not stand in its own way."""
    assert state.topology is not None
    others = state.usage.minus(state.usage_of(request.instance.uuid))
    return Host(
        name=state.node.hypervisor_hostname,
        topology=state.topology,
        usage=others.numa,
        policy=state.policy.numa,
    )


def _unplaced(placed: Fitted | Refused) -> tuple[Reason, ...]:
    return placed.reasons if isinstance(placed, Refused) else ()


def _reasons(state: HostState, claim: Claim, asked: Demand) -> Iterator[Reason]:
    for resource, number in asked.others:
        yield Reason(
            code=ReasonCode.NOT_OFFERED,
            resource=resource,
            where=state.node.hypervisor_hostname,
            requested=number,
            available=0,
            unit="units",
        )
    yield from amounts.shortfalls(state, claim)


def _granted(state: HostState, call: Call, now: datetime, *events: Event) -> Granted:
    """The change that these events make: what is live after them is put, what is not is ended."""
    after = tuple(event.after for event in events)
    change = _change(
        call,
        now,
        puts=tuple(claim for claim in after if claim.state != RELEASED),
        ends=tuple(claim for claim in after if claim.state == RELEASED),
        events=events,
        operations=(_record(call, after),),
    )
    return Granted(change, after)


def _change(call: Call, now: datetime, **parts: Any) -> Change:
    return Change(cause=call.method, at=now, actor=call.actor, request_id=call.request_id, **parts)


def _record(call: Call, claims: tuple[Claim, ...] = ()) -> Operation:
    return Operation(
        operation_id=call.operation_id,
        digest=call.digest,
        method=call.method,
        claim_uuid=claims[0].uuid if claims else None,
    )


def _ended(claim_uuid: str) -> Operation:
    return Operation(operation_id=claim_uuid, digest="", method="abort", ended=True)
