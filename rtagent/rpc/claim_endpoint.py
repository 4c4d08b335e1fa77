"""The methods of a build's claim, of the adoption of domains, and of PCI devices (hot plug and
quarantine), and their arguments.
"""

from collections.abc import Sequence
from typing import Annotated, Any

from msgspec import Meta

from rtagent import claims
from rtagent.lifecycle import attach
from rtagent.lifecycle.transitions import live
from rtagent.model.address import PciAddress
from rtagent.model.base import Name, SomeItems, Uuid
from rtagent.model.change import Call
from rtagent.model.claim import Claim
from rtagent.model.guest import GuestLayout
from rtagent.model.request import Arguments, AttachRequest, BuildRequest, Flavor, InstanceUpdate
from rtagent.reconcile.adoption import adopt, notes
from rtagent.rpc import replies
from rtagent.rpc.method import CLAIM_ERRORS, CREATION_ERRORS, READY_ERRORS, Change, rpc_method
from rtagent.rpc.roles import CONDUCTOR, OPERATOR, READER
from rtagent.rpc.served_agent import ServedAgent

#: The most claims of one call: as many as the state writer puts into one commit.
MAX_CLAIMS = 64


class InstanceClaim(BuildRequest, frozen=True, kw_only=True):
    """:ivar operation_id: becomes the claim's uuid."""

    operation_id: Uuid


class InstanceClaims(Arguments, frozen=True, kw_only=True):
    """:ivar claims: each as the arguments of ``instance_claim``."""

    claims: Annotated[tuple[InstanceClaim, ...], Meta(min_length=1, max_length=MAX_CLAIMS)]


class ClaimChange(Change, frozen=True, kw_only=True):
    """The claim to change."""

    claim_uuid: Uuid


class EndClaim(ClaimChange, frozen=True, kw_only=True):
    """The claim to end.

    :ivar unless_running: refuse the call if the guest of the claim runs on this host, as far as the
        last audit saw.
    :ivar reason: for the history of the claim.
    """

    unless_running: bool | None = None
    reason: Name | None = None


class TestRelease(Arguments, frozen=True, kw_only=True):
    """The claim that would be released."""

    claim_uuid: Uuid


class UpdateUsage(Change, frozen=True, kw_only=True):
    """An instance's new state."""

    instance: InstanceUpdate


@rpc_method(CONDUCTOR, errors=CREATION_ERRORS)
def instance_claim(agent: ServedAgent, arguments: InstanceClaim, call: Call) -> replies.Claim:
    """Claim resources for a build. The claim is ``building`` and leased. Its uuid is the operation
    id."""
    return agent.created(agent.tracker.create(claims.instance_claim, call, arguments), call)


@rpc_method(CONDUCTOR, errors=CREATION_ERRORS, batch_of="instance_claim")
def instance_claims(
    agent: ServedAgent, arguments: InstanceClaims, calls: Sequence[Call]
) -> replies.ClaimAnswers:
    """Claim resources for many builds, in one transaction where that is possible. Each is decided,
    in the order of the list, like a call of ``instance_claim``, and has an answer of its own: a
    refusal has no effect on the others. Repeat the call, or single calls of ``instance_claim``,
    with the same operation ids."""
    requests = list(zip(calls, arguments.claims, strict=True))
    made = agent.tracker.create_all(claims.instance_claim, requests)
    return replies.ClaimAnswers(answers=tuple(map(agent.answer, made, calls)))


@rpc_method(CONDUCTOR, errors=(*CLAIM_ERRORS, *READY_ERRORS))
def activate_claim(agent: ServedAgent, arguments: ClaimChange, call: Call) -> replies.Claim:
    """Make a ``building`` claim ``active``, before the domain is started. A caller that receives
    ``ClaimExpired`` must not start the domain."""
    claim = agent.tracker.change(claims.activate_claim, call, arguments.claim_uuid)
    return agent.startable(claim)


@rpc_method(CONDUCTOR, errors=CLAIM_ERRORS)
def renew_claim(agent: ServedAgent, arguments: ClaimChange, call: Call) -> replies.Claim:
    """Renew the lease of a ``building`` or ``incoming`` claim. An ``active`` claim is returned
    unchanged."""
    return agent.claim(agent.tracker.change(claims.renew_claim, call, arguments.claim_uuid))


@rpc_method(CONDUCTOR, errors=("IllegalTransition", "GuestRunning"))
def abort_instance_claim(agent: ServedAgent, arguments: EndClaim, call: Call) -> None:
    """Abort a build and release its claim. An unknown id is recorded as ended, so that a late
    create with that id is refused. Idempotent."""
    uuid, end = arguments.claim_uuid, _end(agent, arguments)
    agent.tracker.execute(claims.abort_instance_claim, call, uuid, **end)


@rpc_method(CONDUCTOR, errors=("GuestRunning",))
def release_claim(agent: ServedAgent, arguments: EndClaim, call: Call) -> None:
    """Release everything that a claim has. Idempotent."""
    uuid, end = arguments.claim_uuid, _end(agent, arguments)
    agent.tracker.execute(claims.release_claim, call, uuid, **end)


def _end(agent: ServedAgent, arguments: EndClaim) -> dict[str, Any]:
    """Return what the end of a claim has to know. :raises NodeNotReady:"""
    running = agent.running() if arguments.unless_running else ()
    return {"reason": arguments.reason or "", "running": running}


@rpc_method(READER, errors=("ClaimNotFound",))
def test_release(agent: ServedAgent, arguments: TestRelease) -> replies.TestedRelease:
    """Return the claim that `release_claim` would release, and whether its guest runs here. Changes
    nothing."""
    claim = live(agent.tracker.snapshot(), arguments.claim_uuid)
    runs = claim.owner_id in agent.running()
    return replies.TestedRelease(claim=agent.claim(claim), guest_runs=runs)


@rpc_method(CONDUCTOR)
def update_usage(agent: ServedAgent, arguments: UpdateUsage, call: Call) -> None:
    """Report an instance's new state, which feeds the statistics. ``deleted`` and
    ``shelved_offloaded`` release all claims of the instance, in any state, and end its moves."""
    agent.tracker.execute(claims.update_usage, call, arguments.instance)


#: Errors of both methods of adoption, besides those of every change.
ADOPTION_ERRORS = (
    *("DomainNotAdoptable", "ClaimConflict", "HypervisorUnavailable"),
    *("NodeDraining", "NodeNotReady", "StoreRestored", "StoreUnavailable"),
)


class TestAdoption(Arguments, frozen=True, kw_only=True):
    """The domain to adopt.

    :ivar flavor: the flavor of the server; null: the one in the metadata of the domain, or else
        one with the domain's vCPUs and memory. The claim has the vCPUs and the memory of the
        domain in any case.
    :ivar shut_off: adopt the domain even if it is shut off. Its claim has what it needs to start.
    """

    domain_uuid: Uuid
    flavor: Flavor | None = None
    shut_off: bool = False


class AdoptDomain(TestAdoption, frozen=True, kw_only=True):
    """:ivar operation_id: becomes the claim's uuid."""

    operation_id: Uuid


@rpc_method(OPERATOR, errors=(*ADOPTION_ERRORS, "ClaimExpired"), slow=True, at_once=1)
def adopt_domain(agent: ServedAgent, arguments: AdoptDomain, call: Call) -> replies.Adopted:
    """Make an ``active`` claim of a domain that has none: an orphan. The claim has the host CPUs,
    cells, pages and devices of the domain. Its uuid is the operation id. A domain that no claim can
    describe, or that shares a unit with a claim, is refused with ``DomainNotAdoptable`` and stays
    an orphan. So is a domain that is shut off, if ``shut_off`` is false or others use what it
    needs."""
    uuid, layout = arguments.domain_uuid, agent.auditor.guest(arguments.domain_uuid)
    claim = agent.tracker.create(
        adopt, call, uuid, layout, arguments.flavor, shut_off=arguments.shut_off
    )
    return _adopted(agent, claim, layout, arguments)


@rpc_method(READER, errors=ADOPTION_ERRORS, slow=True, at_once=1)
def test_adoption(agent: ServedAgent, arguments: TestAdoption) -> replies.Adopted:
    """Return the claim that ``adopt_domain`` would make, or its error. Changes nothing."""
    uuid, layout = arguments.domain_uuid, agent.auditor.guest(arguments.domain_uuid)
    tested = agent.tracker.test_claim(
        adopt, uuid, layout, arguments.flavor, shut_off=arguments.shut_off
    )
    return _adopted(agent, tested.claims[0], layout, arguments)


def _adopted(
    agent: ServedAgent, claim: Claim, layout: GuestLayout | None, arguments: TestAdoption
) -> replies.Adopted:
    sentences = () if layout is None else notes(layout, arguments.flavor)
    return replies.Adopted(claim=agent.claim(claim), notes=sentences)


#: Addresses of devices of one call, in the form in which claims have them.
PciAddresses = SomeItems[PciAddress]

#: Errors of the calls that release devices.
END_ERRORS = ("ClaimNotFound", "IllegalTransition", "PciDevicesNotClaimed")


class ClaimPciDevices(AttachRequest, frozen=True, kw_only=True):
    """:ivar operation_id: becomes the claim's uuid.
    :ivar pci_requests: the devices to add. The flavor's aliases are not included.
    :ivar allocations: as for ``instance_claim``, with the devices to add.
    :ivar provider_mapping: as for ``instance_claim``.
    """

    operation_id: Uuid


class PciClaimChange(Change, frozen=True, kw_only=True):
    """The ``attach`` claim to change."""

    instance_uuid: Uuid
    claim_uuid: Uuid


class PciClaimEnd(PciClaimChange, frozen=True, kw_only=True):
    """:ivar devices: the devices to release, like 0000:08:00.0; the claim keeps the others. Null:
    all, and the claim ends.
    """

    devices: PciAddresses | None = None


class PciClaimsEnd(Change, frozen=True, kw_only=True):
    """:ivar claim_uuid: null: every claim of the instance to which the method applies.
    :ivar devices: the devices to release, like 0000:08:00.0; the claims keep the others. Null: all,
        and the claims end.
    """

    instance_uuid: Uuid
    claim_uuid: Uuid | None = None
    devices: PciAddresses | None = None


class QuarantinePciDevice(Change, frozen=True, kw_only=True):
    """:ivar address: like 0000:08:00.0."""

    address: Name
    reason: Annotated[Name, Meta(min_length=1)]


class ClearPciDevice(Change, frozen=True, kw_only=True):
    """:ivar address: like 0000:08:00.0."""

    address: Name


@rpc_method(
    CONDUCTOR,
    errors=(
        *("InvalidPciRequest", "PciRequestAliasNotDefined", "ComputeResourcesUnavailable"),
        "AllocationMismatch",
        *("ClaimNotFound", "ClaimExpired", "NodeNotReady", "StoreRestored"),
        *("HypervisorUnavailable", "AllocationNotWritten"),
    ),
)
def claim_pci_devices(agent: ServedAgent, arguments: ClaimPciDevices, call: Call) -> replies.Claim:
    """Claim devices to be added to an instance that has a claim here. The claim is of kind
    ``attach``, ``building`` and leased. Its uuid is the operation id."""
    return agent.created(agent.tracker.create(attach.claim_pci_devices, call, arguments), call)


@rpc_method(CONDUCTOR, errors=CLAIM_ERRORS)
def allocate_pci_devices_for_instance(
    agent: ServedAgent, arguments: PciClaimChange, call: Call
) -> replies.Claim:
    """Make a ``building`` claim of kind ``attach`` ``active``, before its devices are attached to
    the guest. A caller that receives ``ClaimExpired`` must not attach them."""
    owner, claim = arguments.instance_uuid, arguments.claim_uuid
    return agent.claim(agent.tracker.change(attach.allocate_pci_devices, call, owner, claim))


@rpc_method(CONDUCTOR, errors=END_ERRORS)
def unclaim_pci_devices(agent: ServedAgent, arguments: PciClaimEnd, call: Call) -> None:
    """Release a claim of kind ``attach`` that is still ``building``, or some of its devices.
    Idempotent."""
    _end_devices(agent, arguments, "unclaim", call)


@rpc_method(CONDUCTOR, errors=END_ERRORS, by_position=("claim_uuid",))
def free_pci_device_claims_for_instance(
    agent: ServedAgent, arguments: PciClaimsEnd, call: Call
) -> None:
    """Release the claims of kind ``attach`` of an instance that are still ``building``, or one of
    them, or some of their devices. Idempotent."""
    _end_devices(agent, arguments, "unclaim", call)


@rpc_method(CONDUCTOR, errors=END_ERRORS, by_position=("claim_uuid",))
def free_pci_device_allocations_for_instance(
    agent: ServedAgent, arguments: PciClaimsEnd, call: Call
) -> None:
    """Release the ``active`` claims of kind ``attach`` of an instance, or one of them, or some of
    their devices, when its guest has detached the devices. Idempotent."""
    _end_devices(agent, arguments, "free", call)


def _end_devices(
    agent: ServedAgent, arguments: PciClaimEnd | PciClaimsEnd, verb: str, call: Call
) -> None:
    owner, claim, devices = arguments.instance_uuid, arguments.claim_uuid, arguments.devices
    agent.tracker.execute(attach.end_pci_claims, call, owner, claim, verb, devices or ())


@rpc_method(OPERATOR, errors=("PciDeviceNotFound",))
def quarantine_pci_device(agent: ServedAgent, arguments: QuarantinePciDevice, call: Call) -> None:
    """Make a device unavailable to new claims, and every virtual GPU of it, too. Its current users
    keep what they have."""
    agent.tracker.execute(attach.quarantine, call, arguments.address, arguments.reason)


@rpc_method(OPERATOR, errors=("PciDeviceNotFound",))
def clear_pci_device(agent: ServedAgent, arguments: ClearPciDevice, call: Call) -> None:
    """End the quarantine of a device."""
    agent.tracker.execute(attach.quarantine, call, arguments.address, None)
