"""Ends of claims and of devices that the embedding program states as facts. Pure."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from msgspec.structs import replace

from rtagent.errors import ClaimNotFound
from rtagent.lifecycle.attach import with_devices
from rtagent.lifecycle.consequences import granted
from rtagent.lifecycle.transitions import event_of, live
from rtagent.model.change import Call, Event, ended_operation
from rtagent.model.claim import ATTACH, Claim
from rtagent.model.decision import Granted
from rtagent.model.node_state import NodeState


def release_claims(
    state: NodeState,
    call: Call,
    now: datetime,
    owner_id: str,
    claim_uuids: Collection[str] | None = None,
    reason: str = "",
) -> Granted:
    """Release these claims of an owner, in whatever state they are.

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


def give_back_devices(
    state: NodeState,
    call: Call,
    now: datetime,
    owner_id: str,
    devices: Collection[str],
    claim_uuid: str | None = None,
) -> Granted:
    """Give back devices of an owner's claims, main and attach claims, in whatever state they are.
    The claims keep their other devices. An attach claim without any ends.

    :param devices: addresses. :param claim_uuid: only of this claim; None: of all that have them.
    :raises ClaimNotFound: the claim is not live, or another owner's.
    :raises PciDevicesNotClaimed: the claims do not have all of these devices.
    """
    claims = state.claims_of(owner_id)
    if claim_uuid is not None:
        claims = (live(state, claim_uuid),)
        if claims[0].owner_id != owner_id:
            raise ClaimNotFound(claim_uuid=claim_uuid)
    chosen = with_devices(claims, owner_id, devices)
    events = (_without(claim, devices, state, now) for claim in chosen)
    return granted(state, call, now, *events)


def _without(claim: Claim, devices: Collection[str], state: NodeState, now: datetime) -> Event:
    left = tuple(each for each in claim.pci if each.address not in devices)
    given = ", ".join(each.address for each in claim.pci if each not in left)
    reason = f"gave back {given}"
    if claim.kind == ATTACH and not left:
        return event_of(claim, "release", state, now, reason)
    return event_of(claim, "give_back", state, now, reason, pci=left)
