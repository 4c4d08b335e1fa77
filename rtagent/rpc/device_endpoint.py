"""The methods of PCI devices (hot plug and quarantine), and their arguments."""

from typing import Annotated

from msgspec import Meta

from rtagent.lifecycle import attach
from rtagent.model.address import PciAddress
from rtagent.model.base import Name, SomeItems, Uuid
from rtagent.model.change import Call
from rtagent.model.request import AttachRequest
from rtagent.rpc import replies
from rtagent.rpc.method import CLAIM_ERRORS, Change, rpc_method
from rtagent.rpc.roles import CONDUCTOR, OPERATOR
from rtagent.rpc.served_agent import ServedAgent

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
    _end(agent, arguments, "unclaim", call)


@rpc_method(CONDUCTOR, errors=END_ERRORS, by_position=("claim_uuid",))
def free_pci_device_claims_for_instance(
    agent: ServedAgent, arguments: PciClaimsEnd, call: Call
) -> None:
    """Release the claims of kind ``attach`` of an instance that are still ``building``, or one of
    them, or some of their devices. Idempotent."""
    _end(agent, arguments, "unclaim", call)


@rpc_method(CONDUCTOR, errors=END_ERRORS, by_position=("claim_uuid",))
def free_pci_device_allocations_for_instance(
    agent: ServedAgent, arguments: PciClaimsEnd, call: Call
) -> None:
    """Release the ``active`` claims of kind ``attach`` of an instance, or one of them, or some of
    their devices, when its guest has detached the devices. Idempotent."""
    _end(agent, arguments, "free", call)


def _end(agent: ServedAgent, arguments: PciClaimEnd | PciClaimsEnd, verb: str, call: Call) -> None:
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
