"""Which state of a claim follows which, and the change that a transition makes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from msgspec.structs import replace

from rtagent.broken_off import broken_off
from rtagent.errors import ClaimNotFound, IllegalTransition
from rtagent.model.change import Call, Change, Event, Operation
from rtagent.model.claim import (
    ACTIVE,
    ATTACH,
    BUILDING,
    INCOMING,
    LEASED_STATES,
    OUTGOING,
    RELEASED,
    Claim,
)
from rtagent.model.decision import Granted
from rtagent.model.device import PciDevice
from rtagent.model.host import HostState
from rtagent.pci.holds import device_holds
from rtagent.pci.record import released

#: What each verb makes of each state; a pair that is not here is illegal.
LIFE_CYCLE: Mapping[str, Mapping[str, str]] = {
    "activate": {BUILDING: ACTIVE, ACTIVE: ACTIVE},
    "renew": {BUILDING: BUILDING, ACTIVE: ACTIVE, INCOMING: INCOMING},
    "update": {BUILDING: BUILDING, ACTIVE: ACTIVE, INCOMING: INCOMING, OUTGOING: OUTGOING},
    "abort": {BUILDING: RELEASED, ACTIVE: RELEASED, INCOMING: RELEASED},
    "release": {BUILDING: RELEASED, ACTIVE: RELEASED, INCOMING: RELEASED, OUTGOING: RELEASED},
    # of claims that add devices
    "unclaim": {BUILDING: RELEASED},
    "free": {ACTIVE: RELEASED},
    # of moves: the source's side of a call first, then the destination's
    "start_move_out": {ACTIVE: OUTGOING, OUTGOING: OUTGOING},
    "drop_move_claim_at_source": {ACTIVE: RELEASED, OUTGOING: RELEASED},
    "finish_revert": {OUTGOING: ACTIVE, ACTIVE: ACTIVE},
    "stay": {OUTGOING: ACTIVE, ACTIVE: ACTIVE},
    "finish_move": {INCOMING: ACTIVE, ACTIVE: ACTIVE},
    "finish_evacuation": {INCOMING: ACTIVE, ACTIVE: ACTIVE},
    "drop_move_claim_at_dest": {INCOMING: RELEASED, ACTIVE: RELEASED},
    "drop_move_claim": {INCOMING: RELEASED, ACTIVE: RELEASED},
    # the audit's own verbs
    "appear": {BUILDING: ACTIVE},
    "expire": {BUILDING: RELEASED, INCOMING: RELEASED},
    "suspect": {ACTIVE: ACTIVE},
    "trust": {ACTIVE: ACTIVE, INCOMING: INCOMING, OUTGOING: OUTGOING},
    "evacuated": {ACTIVE: RELEASED, OUTGOING: RELEASED},
}
#: What the calls are named whose verbs are named otherwise.
CALLS: Mapping[str, str] = {
    "activate": "activate_claim",
    "renew": "renew_claim",
    "update": "update_usage",
    "abort": "abort_instance_claim",
    "release": "release_claim",
    "unclaim": "unclaim_pci_devices",
    "free": "free_pci_device_allocations_for_instance",
}
#: What is asked of claims that add devices, and of no others.
OF_DEVICES = frozenset({"unclaim", "free"})
#: What no caller asks for by that name.
OWN_VERBS = frozenset({"stay", "appear", "expire", "suspect", "trust", "evacuated"})


def moved(claim: Claim, verb: str, state: HostState, now: datetime, **other: object) -> Claim:
    """The claim after a verb of the life cycle, stamped and leased as its new state demands.

    :raises IllegalTransition: naming the state and the verbs that are legal there.
    """
    target = LIFE_CYCLE[verb].get(claim.state)
    if target is None:
        raise illegal(claim, verb)
    fields = {"updated_at": now, "revision": state.revision + 1, "state": target, **other}
    if target not in LEASED_STATES:
        fields["expires_at"] = None
    elif verb == "renew":
        fields["expires_at"] = lease_end(state, now)
    return replace(claim, **fields)


def illegal(claim: Claim, verb: str) -> IllegalTransition:
    """Says in which state the claim is, and which calls are legal there."""
    others = OWN_VERBS if claim.kind == ATTACH else OWN_VERBS | OF_DEVICES
    verbs = (each for each in LIFE_CYCLE.keys() - others if claim.state in LIFE_CYCLE[each])
    legal = ", ".join(sorted(CALLS.get(each, each) for each in verbs))
    call = CALLS.get(verb, verb)
    return IllegalTransition(claim_uuid=claim.uuid, state=claim.state, verb=call, legal=legal)


def live(state: HostState, claim_uuid: str) -> Claim:
    """:raises ClaimNotFound: there is no such live claim."""
    claim = state.claims.get(claim_uuid)
    if claim is None:
        raise ClaimNotFound(claim_uuid=claim_uuid)
    return claim


def lease_end(state: HostState, now: datetime) -> datetime:
    """Of a lease that begins now."""
    return now + timedelta(seconds=state.policy.claim_expiry_time)


def granted(state: HostState, call: Call, now: datetime, *events: Event, **parts: Any) -> Granted:
    """What these events change, for a call; they are answered with the claims after them.

    :param parts: what else of a `Change`.
    """
    after = tuple(event.after for event in events)
    made = change(call, now, operations=(record(call, after),), **parts)
    return Granted(changed(state, made, events), after)


def unchanged(call: Call, now: datetime, *claims: Claim) -> Granted:
    """A call that has been served before under another operation id, or has nothing to do: it is
    recorded, and answered with these claims."""
    return Granted(change(call, now, operations=(record(call, claims),)), claims)


def change(call: Call, now: datetime, **parts: Any) -> Change:
    """A call's."""
    return Change(cause=call.method, at=now, actor=call.actor, request_id=call.request_id, **parts)


def changed(state: HostState, made: Change, events: Sequence[Event]) -> Change:
    """A change with these events of claims, and with all that follows from them: what is live after
    an event is put, what is not is ended; attached devices end with the claims they were added to,
    moves with the claims that they made; devices for one use that nobody holds any more are kept
    back."""
    detached = tuple(_detached(state, events, made.at))
    ends = {event.after.uuid for event in detached}  # whatever else was to become of them
    every = (*(event for event in events if event.after.uuid not in ends), *detached)
    after = tuple(event.after for event in every)
    whole = replace(
        made,
        puts=tuple(claim for claim in after if claim.state != RELEASED),
        ends=tuple(claim for claim in after if claim.state == RELEASED),
        events=every,
        migrations=(*made.migrations, *broken_off(state, made, every)),
    )
    used = _used(state, whole)
    return replace(whole, devices=_merged(whole.devices, used)) if used else whole


def _detached(state: HostState, events: Sequence[Event], now: datetime) -> Iterator[Event]:
    """The end of attach claims none of whose elders lives on: a claim that was made later, by a
    move, holds what they held by itself."""
    ended_ = {event.after.uuid for event in events if event.after.state == RELEASED}
    for owner in sorted({event.after.owner_id for event in events if event.after.uuid in ended_}):
        alone = True
        for claim in state.claims_of(owner):
            if claim.kind != ATTACH:
                alone = alone and claim.uuid in ended_
            elif alone and claim.uuid not in ended_:
                after = moved(claim, "release", state, now)
                reason = "the claim that it was added to has ended"
                yield Event(before=claim, after=after, action="release", reason=reason)


def _used(state: HostState, made: Change) -> tuple[PciDevice, ...]:
    """Devices for one use that are let go of by a change, as they are kept back then."""
    let_go = {device.address for claim in made.ends for device in claim.pci}
    for uuid in (*made.unholdings, *(holding.domain_uuid for holding in made.holdings)):
        if uuid in state.holdings and state.holdings[uuid].active:
            let_go |= state.holdings[uuid].occupancy.devices
    known = (*(state.devices[a] for a in let_go if a in state.devices), *made.devices)
    if not any(each.tags.one_time_use for each in known):
        return ()
    after = state.fold(made)
    return released(after.devices, let_go - {hold.address for hold in device_holds(after)})


def _merged(devices: Iterable[PciDevice], later: Iterable[PciDevice]) -> tuple[PciDevice, ...]:
    return tuple({each.address: each for each in (*devices, *later)}.values())


def record(call: Call, claims: tuple[Claim, ...] = ()) -> Operation:
    """That the call has had its effect; a repeat is answered with the first of the claims."""
    return Operation(
        operation_id=call.operation_id,
        digest=call.digest,
        method=call.method,
        claim_uuid=claims[0].uuid if claims else None,
    )


def ended(claim_uuid: str) -> Operation:
    """That a creating call of this id is to be refused."""
    return Operation(operation_id=claim_uuid, digest="", method="abort", ended=True)
