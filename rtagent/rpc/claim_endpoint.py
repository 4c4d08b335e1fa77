"""The methods of a build's claim, and their arguments."""

from __future__ import annotations

from rtagent.model.base import Name, Uuid
from rtagent.model.change import Call
from rtagent.model.instance import Instance, InstanceUpdate
from rtagent.model.request import Allocations, BuildRequest, ExtraResource, Limits, ProviderMapping
from rtagent.rpc import replies
from rtagent.rpc.method import (
    CLAIM_ERRORS,
    CREATION_ERRORS,
    READY_ERRORS,
    Arguments,
    Change,
    rpc_method,
)
from rtagent.tracker import ResourceTracker


class BuildArguments(Arguments, frozen=True, kw_only=True):
    """The facts from which a build's claim is decided.

    :ivar allocations: the instance's allocations in Placement, all of them. The claim gets its
        devices and other resources from the providers that they name, in the same numbers; null:
        the agent chooses.
    :ivar provider_mapping: by the id of a PCI request, or by the name of its alias if it has no
        id: the providers of its devices. Nova's names of request groups are valid, too: the id, a
        hyphen and the number of the device. Other names are ignored, so that ``mappings`` of a
        candidate of Placement can be passed unchanged.
    """

    instance: Instance
    limits: Limits | None = None
    allocations: Allocations | None = None
    provider_mapping: ProviderMapping | None = None
    tag: Name | None = None
    extra_resource: ExtraResource | None = None


class InstanceClaim(BuildArguments, frozen=True, kw_only=True):
    """:ivar operation_id: becomes the claim's uuid."""

    operation_id: Uuid


class ClaimChange(Change, frozen=True, kw_only=True):
    """The claim to change."""

    claim_uuid: Uuid


class UpdateUsage(Change, frozen=True, kw_only=True):
    """An instance's new state."""

    instance: InstanceUpdate


class ClaimEndpoint:
    """Serves the methods of a build's claim."""

    def __init__(self, tracker: ResourceTracker, claim_replies: replies.ClaimReplies) -> None:
        self._tracker, self._replies = tracker, claim_replies

    @rpc_method(errors=CREATION_ERRORS)
    def instance_claim(self, arguments: InstanceClaim, call: Call) -> replies.Claim:
        """Claim resources for a build. The claim is ``building`` and leased. Its uuid is the
        operation id."""
        request = build_request(arguments)
        return self._replies.created(self._tracker.instance_claim(request, call), call)

    @rpc_method(errors=(*CLAIM_ERRORS, *READY_ERRORS))
    def activate_claim(self, arguments: ClaimChange, call: Call) -> replies.Claim:
        """Make a ``building`` claim ``active``, before the domain is started. A caller that
        receives ``ClaimExpired`` must not start the domain."""
        return self._replies.startable(self._tracker.activate_claim(arguments.claim_uuid, call))

    @rpc_method(errors=CLAIM_ERRORS)
    def renew_claim(self, arguments: ClaimChange, call: Call) -> replies.Claim:
        """Renew the lease of a ``building`` or ``incoming`` claim. An ``active`` claim is returned
        unchanged."""
        return self._replies.claim(self._tracker.renew_claim(arguments.claim_uuid, call))

    @rpc_method(errors=("IllegalTransition",))
    def abort_instance_claim(self, arguments: ClaimChange, call: Call) -> None:
        """Abort a build and release its claim. An unknown id is recorded as ended, so that a late
        create with that id is refused. Idempotent."""
        self._tracker.abort_instance_claim(arguments.claim_uuid, call)

    @rpc_method()
    def release_claim(self, arguments: ClaimChange, call: Call) -> None:
        """Release everything that a claim has. Idempotent."""
        self._tracker.release_claim(arguments.claim_uuid, call)

    @rpc_method()
    def update_usage(self, arguments: UpdateUsage, call: Call) -> None:
        """Report an instance's new state, which feeds the statistics. ``deleted`` and
        ``shelved_offloaded`` release all claims of the instance, in any state, and end its
        moves."""
        self._tracker.update_usage(arguments.instance, call)


def build_request(arguments: BuildArguments) -> BuildRequest:
    """Return the request for the tracker."""
    return BuildRequest(
        instance=arguments.instance,
        limits=arguments.limits or Limits(),
        extra_resource=arguments.extra_resource or {},
        tag=arguments.tag,
        allocations=arguments.allocations,
        provider_mapping=arguments.provider_mapping or {},
    )
