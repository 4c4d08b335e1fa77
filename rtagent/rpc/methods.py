"""The methods of the RPC API: one table of what each takes and answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta

from rtagent.model.base import Name, Uuid
from rtagent.model.flavor import Flavor, Image
from rtagent.model.instance import Instance, InstanceUpdate, PciRequest
from rtagent.model.migration import MigrationFacts
from rtagent.model.move import SourceFacts
from rtagent.model.request import Allocations, ExtraResource, Limits
from rtagent.ports import Service
from rtagent.rpc import replies
from rtagent.rpc.method import (
    CREATION_ERRORS,
    FLAVOR_ERRORS,
    READY_ERRORS,
    Arguments,
    Change,
    Method,
)
from rtagent.rpc.move_methods import MOVES

TOPIC = "rtagent"
VERSION = "1.0"


class BuildArguments(Arguments, frozen=True, kw_only=True):
    """What a build's claim is decided from."""

    instance: Instance
    limits: Limits | None = None
    allocations: Allocations | None = None
    tag: Name | None = None
    extra_resource: ExtraResource | None = None


class InstanceClaim(BuildArguments, frozen=True, kw_only=True):
    """:ivar operation_id: the claim's uuid to be."""

    operation_id: Uuid


class TestClaim(BuildArguments, frozen=True, kw_only=True):
    """:ivar kind: which claim's decision is asked for; each takes what its own call takes, and
        needs what that needs, but for a migration's record.
    :ivar pci_requests: of kind ``attach``: what is to be added.
    :ivar flavor: of a resize or a cold migration: the new one. :ivar image: likewise, and of an
        evacuation.
    """

    kind: Literal["build", "attach", "resize", "migration", "live-migration", "evacuation"] = (
        "build"
    )
    pci_requests: Annotated[tuple[PciRequest, ...], Meta(min_length=1)] | None = None
    flavor: Flavor | None = None
    image: Image | None = None
    migration: MigrationFacts | None = None
    source: SourceFacts | None = None


class ClaimChange(Change, frozen=True, kw_only=True):
    """A step in one claim's life."""

    claim_uuid: Uuid


class UpdateUsage(Change, frozen=True, kw_only=True):
    """An instance's new state."""

    instance: InstanceUpdate


class ClaimPciDevices(Arguments, frozen=True, kw_only=True):
    """:ivar operation_id: the claim's uuid to be.
    :ivar pci_requests: what is to be added; the flavor's aliases are no part of it.
    """

    instance: Instance
    pci_requests: Annotated[tuple[PciRequest, ...], Meta(min_length=1)]
    operation_id: Uuid


class PciClaimChange(Change, frozen=True, kw_only=True):
    """A step in the life of one claim that adds devices."""

    instance_uuid: Uuid
    claim_uuid: Uuid


class PciClaimsEnd(Change, frozen=True, kw_only=True):
    """:ivar claim_uuid: null is every one that the method is for."""

    instance_uuid: Uuid
    claim_uuid: Uuid | None = None


class QuarantinePciDevice(Change, frozen=True, kw_only=True):
    """:ivar address: like 0000:08:00.0."""

    address: Name
    reason: Annotated[Name, Meta(min_length=1)]


class ClearPciDevice(Change, frozen=True, kw_only=True):
    """:ivar address: like 0000:08:00.0."""

    address: Name


class SetService(Change, frozen=True, kw_only=True):
    """The service's part in scheduling."""

    disabled: bool
    disabled_reason: Name | None = None


class GetClaim(Arguments, frozen=True, kw_only=True):
    """One claim."""

    claim_uuid: Uuid


class GetClaimsForInstance(Arguments, frozen=True, kw_only=True):
    """An owner's claims."""

    instance_uuid: Uuid


_TABLE = (
    Method(
        name="instance_claim",
        effect="Hold resources for a build: a claim in state ``building``, leased. Its uuid is the"
        " operation id.",
        arguments=InstanceClaim,
        reply=replies.Claim,
        errors=CREATION_ERRORS,
    ),
    Method(
        name="activate_claim",
        effect="The domain is about to be started: ``building`` becomes ``active``. A caller that"
        " is told ``ClaimExpired`` must not start it.",
        arguments=ClaimChange,
        reply=replies.Claim,
        errors=("ClaimNotFound", "ClaimExpired", "IllegalTransition", *READY_ERRORS),
    ),
    Method(
        name="renew_claim",
        effect="A new lease for a ``building`` or ``incoming`` claim; an ``active`` one is returned"
        " as it is.",
        arguments=ClaimChange,
        reply=replies.Claim,
        errors=("ClaimNotFound", "ClaimExpired", "IllegalTransition"),
    ),
    Method(
        name="abort_instance_claim",
        effect="Give up a build and release its claim. An id never seen is recorded as ended, so"
        " that a creating call that arrives later is refused. Idempotent.",
        arguments=ClaimChange,
        errors=("IllegalTransition",),
    ),
    Method(
        name="release_claim",
        effect="Release a claim, wholly. Idempotent.",
        arguments=ClaimChange,
    ),
    Method(
        name="update_usage",
        effect="An instance's new state: feeds the statistics. ``deleted`` and"
        " ``shelved_offloaded`` release its claims, in whatever state, and end its moves.",
        arguments=UpdateUsage,
    ),
    *MOVES,
    Method(
        name="claim_pci_devices",
        effect="Hold devices to be added to an instance that has a claim here: a claim of kind"
        " ``attach``, ``building``, leased. Its uuid is the operation id.",
        arguments=ClaimPciDevices,
        reply=replies.Claim,
        errors=(
            *("InvalidPciRequest", "PciRequestAliasNotDefined", "ComputeResourcesUnavailable"),
            *("ClaimNotFound", "ClaimExpired", "NodeNotReady", "HypervisorUnavailable"),
        ),
    ),
    Method(
        name="allocate_pci_devices_for_instance",
        effect="The devices of an ``attach`` claim are about to be given to the guest:"
        " ``building`` becomes ``active``.",
        arguments=PciClaimChange,
        reply=replies.Claim,
        errors=("ClaimNotFound", "ClaimExpired", "IllegalTransition"),
    ),
    Method(
        name="unclaim_pci_devices",
        effect="Release an ``attach`` claim that is still ``building``. Idempotent.",
        arguments=PciClaimChange,
        errors=("ClaimNotFound", "IllegalTransition"),
    ),
    Method(
        name="free_pci_device_claims_for_instance",
        effect="Release the ``attach`` claims of an instance that are still ``building``, or one"
        " of them. Idempotent.",
        arguments=PciClaimsEnd,
        errors=("ClaimNotFound", "IllegalTransition"),
    ),
    Method(
        name="free_pci_device_allocations_for_instance",
        effect="The guest has given devices back: release its ``active`` ``attach`` claims, or one"
        " of them. Idempotent.",
        arguments=PciClaimsEnd,
        errors=("ClaimNotFound", "IllegalTransition"),
    ),
    Method(
        name="quarantine_pci_device",
        effect="Have nobody get a device from now on, nor anything that it makes (virtual GPUs)."
        " Who holds it, or a part of it, keeps that.",
        arguments=QuarantinePciDevice,
        errors=("PciDeviceNotFound",),
    ),
    Method(
        name="clear_pci_device",
        effect="Have a device that was kept back given out again.",
        arguments=ClearPciDevice,
        errors=("PciDeviceNotFound",),
    ),
    Method(
        name="test_claim",
        effect="The answer that the claim would get now, with every reason; changes nothing.",
        arguments=TestClaim,
        reply=replies.Verdict,
        errors=(
            *FLAVOR_ERRORS,
            "ClaimConflict",
            "ClaimNotFound",
            "StoreUnavailable",
            "NodeNotReady",
            "HypervisorUnavailable",
        ),
    ),
    Method(
        name="get_claim",
        effect="One live claim.",
        arguments=GetClaim,
        reply=replies.OneClaim,
        errors=("ClaimNotFound",),
    ),
    Method(
        name="get_claims_for_instance",
        effect="An instance's live claims here, in the order in which they were made.",
        arguments=GetClaimsForInstance,
        reply=replies.Claims,
    ),
    Method(
        name="get_claims_for_host",
        effect="Every live claim, in the order in which they were made.",
        arguments=Arguments,
        reply=replies.Claims,
    ),
    Method(
        name="get_node",
        effect="The node's record: capacity, usage, ratios, statistics.",
        arguments=Arguments,
        reply=replies.OneNode,
    ),
    Method(
        name="update_available_resource",
        effect="Audit now, and say what was found.",
        arguments=Arguments,
        reply=replies.Audit,
        errors=("HypervisorUnavailable", "TrackerBusy"),
    ),
    Method(
        name="sync_placement",
        effect="Read anew what Placement has of this host, and push what differs; answered when"
        " that is done.",
        arguments=Arguments,
        reply=replies.Mirrored,
        errors=("PlacementError", "PlacementConflict", "PlacementUnavailable", "NodeNotReady"),
    ),
    Method(
        name="build_failed",
        effect="A build has failed: one more in ``stats.failed_builds``.",
        arguments=Change,
    ),
    Method(
        name="build_succeeded",
        effect="A build has succeeded: ``stats.failed_builds`` begins again at zero.",
        arguments=Change,
    ),
    Method(
        name="set_service",
        effect="Take the host out of scheduling, with a reason, or back into it.",
        arguments=SetService,
        reply=Service,
    ),
    Method(
        name="ping",
        effect="Who answers, and how far it is.",
        arguments=Arguments,
        reply=replies.Pong,
    ),
)

#: By name.
METHODS: Mapping[str, Method] = {method.name: method for method in _TABLE}
