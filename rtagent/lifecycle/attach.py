"""Attach claims: devices that are added to a guest, and removed from it. Pure.

An owner may have any number of them besides its main claim. They end with that claim at the latest.
"""

from collections.abc import Collection
from datetime import datetime

from msgspec.structs import replace

from rtagent import errors
from rtagent.allocation.kept_views import device_fit, reusable_by
from rtagent.allocation.requirements import numa_of
from rtagent.allocation.shares import attached_shares
from rtagent.allocation.unknown_usage import unknown_usage
from rtagent.lifecycle.consequences import granted
from rtagent.lifecycle.new_claim import new_claim
from rtagent.lifecycle.transitions import event_of, live
from rtagent.model.assignment import Assignment
from rtagent.model.change import Call, Event, ended_operation
from rtagent.model.claim import ACTIVE, ATTACH, BUILDING, PCI, Claim
from rtagent.model.decision import Decision, Granted, Refused, created, refuse
from rtagent.model.domain_usage import HostResource
from rtagent.model.node_state import NodeState
from rtagent.model.request import AttachRequest, BuildRequest
from rtagent.pci.fit import FittedDevices
from rtagent.pci.requests import device_requests
from rtagent.pci.specs import quarantine_used


def claim_pci_devices(
    state: NodeState,
    call: Call,
    now: datetime,
    request: AttachRequest,
    *,
    active: bool = False,
    cells: Collection[int] | None = None,
) -> Decision:
    """Claim devices for a guest that has a claim here, or whose cells the caller names: a claim in
    state `building`, leased.

    A request's own NUMA policy applies; without one, the guest's does.

    :param active: the devices are about to be attached: the claim is in state `active`.
    :param cells: the host cells of the guest, as a fact that the embedding program knows; then the
        guest needs no claim here. Empty: it has no NUMA topology. None: those of its claim.
    :raises AllocationMismatch: its allocations are not what it needs.
    :raises ClaimNotFound: the instance has no live claim that they could be added to.
    :raises ClaimConflict: another claim has the uuid.
    :raises NodeNotReady: the host was never observed.
    """
    if state.topology is None:
        raise errors.NodeNotReady("what this host is made of is not known yet")
    owner = request.instance.uuid
    main = next((claim for claim in state.claims_of(owner) if claim.kind != ATTACH), None)
    if main is None and cells is None:
        raise errors.ClaimNotFound(owner_id=owner)
    if call.operation_id in state.claims:
        raise errors.ClaimConflict(
            f"claim {call.operation_id} exists already", claim_uuid=call.operation_id
        )
    fitted = _fit(state, main, request, cells)
    if isinstance(fitted, Refused):
        return fitted
    build = BuildRequest(
        instance=replace(request.instance, pci_requests=request.pci_requests),
        allocations=request.allocations,
        provider_mapping=request.provider_mapping,
    )
    claim = replace(
        new_claim(state, call, now, build, active=active), kind=ATTACH, pci=fitted.devices
    )
    return created(call, claim, now)


def allocate_pci_devices(
    state: NodeState, call: Call, now: datetime, owner_id: str, claim_uuid: str
) -> Decision:
    """Activate an attach claim before its devices are attached to the guest: the lease ends here.

    :raises ClaimNotFound: the instance has no such attach claim.
    """
    before = live(state, claim_uuid)
    if before.kind != ATTACH or before.owner_id != owner_id:
        raise errors.ClaimNotFound(claim_uuid=claim_uuid)
    return granted(state, call, now, event_of(before, "activate", state, now))


def end_pci_claims(
    state: NodeState,
    call: Call,
    now: datetime,
    owner_id: str,
    claim_uuid: str | None,
    verb: str,
    devices: Collection[str] = (),
) -> Decision:
    """Release one attach claim of an instance, or all that are in the verb's state; or only some of
    their devices.

    :param verb: ``unclaim`` for building claims, ``free`` for active ones.
    :param devices: the addresses to release; the claims keep their other devices. Empty: all.
    :raises ClaimNotFound: the claim is another instance's, or not an attach claim.
    :raises IllegalTransition: the claim is not in the verb's state.
    :raises PciDevicesNotClaimed: the claims do not have all of these devices.
    """
    if claim_uuid is None:
        its_state = {"unclaim": BUILDING, "free": ACTIVE}[verb]
        chosen = tuple(
            claim
            for claim in state.claims_of(owner_id)
            if claim.kind == ATTACH and claim.state == its_state
        )
    elif claim_uuid not in state.claims:
        operations = (call.operation(), ended_operation(claim_uuid))
        return Granted(call.change(now, operations=operations))
    else:
        chosen = (state.claims[claim_uuid],)
        if chosen[0].kind != ATTACH or chosen[0].owner_id != owner_id:
            raise errors.ClaimNotFound(claim_uuid=claim_uuid)
    if devices:
        chosen = _with_devices(chosen, owner_id, devices)
    events = (_without(claim, devices, verb, f"{verb}_devices", state, now) for claim in chosen)
    return granted(state, call, now, *events)


def give_back_devices(
    state: NodeState,
    call: Call,
    now: datetime,
    owner_id: str,
    devices: Collection[str],
    claim_uuid: str | None = None,
) -> Granted:
    """Give back devices of an owner's claims, main and attach claims, in whatever state they are: a
    fact that the embedding program states. The claims keep their other devices. An attach claim
    without any ends.

    :param devices: addresses. :param claim_uuid: only of this claim; None: of all that have them.
    :raises ClaimNotFound: the claim is not live, or another owner's.
    :raises PciDevicesNotClaimed: the claims do not have all of these devices.
    """
    claims = state.claims_of(owner_id)
    if claim_uuid is not None:
        claims = (live(state, claim_uuid),)
        if claims[0].owner_id != owner_id:
            raise errors.ClaimNotFound(claim_uuid=claim_uuid)
    chosen = _with_devices(claims, owner_id, devices)
    events = (_without(claim, devices, "release", "give_back", state, now) for claim in chosen)
    return granted(state, call, now, *events)


def _with_devices(
    claims: tuple[Claim, ...], owner_id: str, devices: Collection[str]
) -> tuple[Claim, ...]:
    """Return those claims of an owner that have one of the devices.

    :raises PciDevicesNotClaimed: no claim has some of them.
    """
    claimed = {device.address for claim in claims for device in claim.pci}
    if missing := sorted({*devices} - claimed):
        raise errors.PciDevicesNotClaimed(
            owner_id=owner_id, devices=missing, claimed=sorted(claimed)
        )
    return tuple(
        claim for claim in claims if not {*devices}.isdisjoint(each.address for each in claim.pci)
    )


def _without(
    claim: Claim, devices: Collection[str], end: str, keep: str, state: NodeState, now: datetime
) -> Event:
    """The transition by which a claim gives back these devices. An attach claim without any ends.

    :param devices: addresses; empty: all. :param end: the verb if it ends. :param keep: if not.
    """
    left = tuple(each for each in claim.pci if devices and each.address not in devices)
    given = ", ".join(each.address for each in claim.pci if each not in left)
    reason = f"gave back {given}" if devices else ""
    if claim.kind == ATTACH and not left:
        return event_of(claim, end, state, now, reason)
    return event_of(claim, keep, state, now, reason, pci=left)


def _fit(
    state: NodeState, main: Claim | None, request: AttachRequest, cells: Collection[int] | None
) -> FittedDevices | Refused:
    guest, owner = main or request.instance, request.instance.uuid
    policy = numa_of(guest.flavor, guest.image.properties).pci_numa_affinity_policy
    requests = device_requests(None, request.pci_requests, state.policy.pci.aliases, policy)
    shares = attached_shares(state, request, requests)
    devices = device_fit(state, owner, requests, reusable_by(state, owner, ()), shares)
    assert devices is not None, "an attach request names at least one device"
    if cells is None:
        assigned = main.numa_topology if main is not None else None
        cells = [cell.id for cell in (assigned or Assignment()).cells]
    needs = {HostResource.DEVICES: sum(each.count for each in requests)}
    unknown = tuple(unknown_usage(state, owner, needs))
    fitted = devices.fit(frozenset(cells))
    if not unknown:
        return fitted
    return refuse((*unknown, *(fitted.reasons if isinstance(fitted, Refused) else ())))


def quarantine(
    state: NodeState, call: Call, now: datetime, address: str, reason: str | None
) -> Granted:
    """Put a device into quarantine, or clear it. A claim that has the device keeps it.

    :param reason: why it is unavailable; None: it is available again.
    :raises PciDeviceNotFound: the device is unknown.
    """
    device = state.devices.get(address)
    if device is None:
        raise errors.PciDeviceNotFound(address=address)
    new = replace(device, quarantine=reason)
    puts = (new,) if new != device else ()
    return Granted(call.change(now, devices=puts, operations=(call.operation(),)))


def quarantine_used_before(
    state: NodeState, call: Call, now: datetime, addresses: Collection[str]
) -> Granted:
    """Put devices for one use into quarantine that had their use before this agent served the host.

    A device that a claim has by now is left to its release.
    """
    unclaimed = [address for address in addresses if (PCI, address) not in state.units]
    puts = quarantine_used(state.devices, unclaimed)
    return Granted(call.change(now, devices=puts, operations=(call.operation(),)))
