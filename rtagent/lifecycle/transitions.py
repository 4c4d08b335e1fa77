"""The life cycle of a claim: which verb leads from which state to which."""

from collections.abc import Mapping
from datetime import datetime

from msgspec.structs import replace

from rtagent.errors import ClaimNotFound, IllegalTransition
from rtagent.lifecycle.new_claim import lease_end
from rtagent.model.change import Event
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
from rtagent.model.node_state import NodeState

#: By verb: from state to state. A state that is not listed makes the verb illegal.
LIFE_CYCLE: Mapping[str, Mapping[str, str]] = {
    # The domain is about to be started.
    "activate": {BUILDING: ACTIVE, ACTIVE: ACTIVE},
    # A new lease; an active claim has none and is returned unchanged.
    "renew": {BUILDING: BUILDING, ACTIVE: ACTIVE, INCOMING: INCOMING},
    # The instance's vm_state or task_state has changed.
    "update": {BUILDING: BUILDING, ACTIVE: ACTIVE, INCOMING: INCOMING, OUTGOING: OUTGOING},
    # The build, or the move to this host, is given up. An outgoing claim is not a build.
    "abort": {BUILDING: RELEASED, ACTIVE: RELEASED, INCOMING: RELEASED},
    # The caller or the operator releases the claim, whatever its state.
    "release": {BUILDING: RELEASED, ACTIVE: RELEASED, INCOMING: RELEASED, OUTGOING: RELEASED},
    # Attach claims: their devices are not wanted any more / are detached from the guest.
    "unclaim": {BUILDING: RELEASED},
    "free": {ACTIVE: RELEASED},
    # The same for some of the devices of an attach claim; the others stay claimed.
    "unclaim_devices": {BUILDING: BUILDING},
    "free_devices": {ACTIVE: ACTIVE},
    # Any claim: the program that embeds the tracker knows that the guest lacks some of its devices.
    "give_back": {BUILDING: BUILDING, ACTIVE: ACTIVE, INCOMING: INCOMING, OUTGOING: OUTGOING},
    # Any claim: the program that embeds the tracker has chosen the guest's mediated devices.
    "adopt_mdevs": {BUILDING: BUILDING, ACTIVE: ACTIVE, INCOMING: INCOMING, OUTGOING: OUTGOING},
    # Moves, at the source: the guest leaves; it is elsewhere for good; it is back.
    "start_move_out": {ACTIVE: OUTGOING, OUTGOING: OUTGOING},
    "drop_move_claim_at_source": {ACTIVE: RELEASED, OUTGOING: RELEASED},
    "finish_revert": {OUTGOING: ACTIVE, ACTIVE: ACTIVE},
    # Moves, at the source: the move has failed and the guest stays.
    "stay": {OUTGOING: ACTIVE, ACTIVE: ACTIVE},
    # Moves, at the destination: the guest is here; it goes back; the move has failed.
    "finish_move": {INCOMING: ACTIVE, ACTIVE: ACTIVE},
    "finish_evacuation": {INCOMING: ACTIVE, ACTIVE: ACTIVE},
    "drop_move_claim_at_dest": {INCOMING: RELEASED, ACTIVE: RELEASED},
    "drop_move_claim": {INCOMING: RELEASED, ACTIVE: RELEASED},
    # Audits: the domain was seen; the lease has lapsed and there is no domain; the domain is
    # missing; the domain is back; another node has taken over the evacuated guest.
    "appear": {BUILDING: ACTIVE},
    "expire": {BUILDING: RELEASED, INCOMING: RELEASED},
    "suspect": {ACTIVE: ACTIVE},
    "trust": {ACTIVE: ACTIVE, INCOMING: INCOMING, OUTGOING: OUTGOING},
    "evacuated": {ACTIVE: RELEASED, OUTGOING: RELEASED},
}
#: RPC methods whose names differ from their verbs.
METHOD_NAMES: Mapping[str, str] = {
    "activate": "activate_claim",
    "renew": "renew_claim",
    "update": "update_usage",
    "abort": "abort_instance_claim",
    "release": "release_claim",
    "unclaim": "unclaim_pci_devices",
    "free": "free_pci_device_allocations_for_instance",
    "unclaim_devices": "unclaim_pci_devices",
    "free_devices": "free_pci_device_allocations_for_instance",
}
#: Verbs of attach claims only.
ATTACH_VERBS = frozenset({"unclaim", "free", "unclaim_devices", "free_devices"})
#: Verbs that no RPC method has.
INTERNAL_VERBS = frozenset(
    {"adopt_mdevs", "give_back", "stay", "appear", "expire", "suspect", "trust", "evacuated"}
)


def transition(claim: Claim, verb: str, state: NodeState, now: datetime, **other: object) -> Claim:
    """The claim after a verb of the life cycle, with the time stamps and lease of its new state.

    :param other: further fields of the claim.
    :raises IllegalTransition: naming the state and the methods that are legal in it.
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


def event_of(
    claim: Claim, verb: str, state: NodeState, now: datetime, reason: str = "", **other: object
) -> Event:
    """The event of a claim's `transition`. :param reason: for the history."""
    after = transition(claim, verb, state, now, **other)
    return Event(before=claim, after=after, action=verb, reason=reason)


def illegal(claim: Claim, verb: str) -> IllegalTransition:
    """The error that names the claim's state, and the methods that are legal in it."""
    others = INTERNAL_VERBS if claim.kind == ATTACH else INTERNAL_VERBS | ATTACH_VERBS
    verbs = (each for each in LIFE_CYCLE.keys() - others if claim.state in LIFE_CYCLE[each])
    legal = ", ".join(sorted({METHOD_NAMES.get(each, each) for each in verbs}))
    method = METHOD_NAMES.get(verb, verb)
    return IllegalTransition(claim_uuid=claim.uuid, state=claim.state, verb=method, legal=legal)


def live(state: NodeState, claim_uuid: str) -> Claim:
    """The live claim of that uuid. :raises ClaimNotFound: there is none."""
    claim = state.claims.get(claim_uuid)
    if claim is None:
        raise ClaimNotFound(claim_uuid=claim_uuid)
    return claim
