"""What the RPC server serves: each method decodes, makes one call, encodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import msgspec
import oslo_messaging
from oslo_context.context import RequestContext

from rtagent.audit import Auditor
from rtagent.compute_node import compute_node
from rtagent.errors import ClaimNotFound, NodeNotFound, RtAgentError
from rtagent.model.change import Call
from rtagent.model.claim import Claim
from rtagent.model.decision import Granted
from rtagent.model.host import HostState
from rtagent.ports import Clock, Reporter, Service, ServiceRegistry
from rtagent.rpc import methods, replies
from rtagent.rpc.claim_requests import attach_request, build_request, tested_request
from rtagent.rpc.context import actor, request_id
from rtagent.rpc.in_flight import InFlight
from rtagent.rpc.method import Arguments, Change, Method
from rtagent.rpc.methods import VERSION
from rtagent.rpc.move_endpoint import MoveEndpoint
from rtagent.rpc.served import served
from rtagent.rpc.validation import digest, validators
from rtagent.tracker import ResourceTracker

#: How much of an error's sentence the log gets: it names what was sent, which has no bound.
MAX_SENTENCE = 1000


class Guest(Protocol):
    """What enacts a claim, as libvirt's XML."""

    def xml(self, claim: Claim, /) -> str:
        """Children of ``<domain>``."""
        ...

    def node_devices(self, claim: Claim, /) -> tuple[str, ...]:
        """Node devices to be created before the guest is started."""
        ...


class Endpoint(MoveEndpoint):
    """Every public method is one of `METHODS`, and may be called by anybody on the bus."""

    target = oslo_messaging.Target(version=VERSION)

    def __init__(
        self,
        tracker: ResourceTracker,
        auditor: Auditor,
        registry: ServiceRegistry,
        clock: Clock,
        reporter: Reporter,
        version: str,
        in_flight: InFlight,
        guest: Guest,
        sync_placement: Callable[[], int],
        settle: Callable[[Claim], None],
    ) -> None:
        """:param version: of the software, for `ping`.
        :param guest: documents that enact claims.
        :param sync_placement: brings Placement up to date, now, and says with which revision;
            raises `PlacementError`.
        :param settle: called with a claim whose domain is about to be started, before its caller is
            told so; raises `Unavailable` if it must not be yet.
        """
        self._tracker, self._auditor, self._registry = tracker, auditor, registry
        self._clock, self._reporter, self._version = clock, reporter, version
        self._in_flight, self._guest = in_flight, guest
        self._sync_placement, self._settle = sync_placement, settle
        self._began = clock.monotonic()
        self._validators = validators()

    # -- claims ---------------------------------------------------------------------------------

    @served
    def instance_claim(self, arguments: methods.InstanceClaim, call: Call) -> replies.Claim:
        request = build_request(arguments, arguments.operation_id)
        return self._shown(self._tracker.instance_claim(request, call))

    @served
    def activate_claim(self, arguments: methods.ClaimChange, call: Call) -> replies.Claim:
        return self._ready(self._tracker.activate_claim(arguments.claim_uuid, call))

    @served
    def renew_claim(self, arguments: methods.ClaimChange, call: Call) -> replies.Claim:
        return self._shown(self._tracker.renew_claim(arguments.claim_uuid, call))

    @served
    def abort_instance_claim(self, arguments: methods.ClaimChange, call: Call) -> None:
        self._tracker.abort_instance_claim(arguments.claim_uuid, call)

    @served
    def release_claim(self, arguments: methods.ClaimChange, call: Call) -> None:
        self._tracker.release_claim(arguments.claim_uuid, call)

    @served
    def update_usage(self, arguments: methods.UpdateUsage, call: Call) -> None:
        self._tracker.update_usage(arguments.instance, call)

    @served
    def test_claim(self, arguments: methods.TestClaim) -> replies.Verdict:
        decision = self._tracker.test_claim(tested_request(arguments))
        if isinstance(decision, Granted):
            return replies.Verdict(granted=True, claim=self._shown(decision.claims[0]))
        told = [reason.as_dict() for reason in decision.reasons]
        return replies.Verdict(
            granted=False, reasons=msgspec.convert(told, tuple[replies.Reason, ...])
        )

    # -- devices --------------------------------------------------------------------------------

    @served
    def claim_pci_devices(self, arguments: methods.ClaimPciDevices, call: Call) -> replies.Claim:
        request = attach_request(arguments, arguments.operation_id)
        return self._shown(self._tracker.claim_pci_devices(request, call))

    @served
    def allocate_pci_devices_for_instance(
        self, arguments: methods.PciClaimChange, call: Call
    ) -> replies.Claim:
        owner, claim = arguments.instance_uuid, arguments.claim_uuid
        return self._shown(self._tracker.allocate_pci_devices(owner, claim, call))

    @served
    def unclaim_pci_devices(self, arguments: methods.PciClaimChange, call: Call) -> None:
        self._end_pci_claims(arguments, "unclaim", call)

    @served
    def free_pci_device_claims_for_instance(
        self, arguments: methods.PciClaimsEnd, call: Call
    ) -> None:
        self._end_pci_claims(arguments, "unclaim", call)

    @served
    def free_pci_device_allocations_for_instance(
        self, arguments: methods.PciClaimsEnd, call: Call
    ) -> None:
        self._end_pci_claims(arguments, "free", call)

    @served
    def quarantine_pci_device(self, arguments: methods.QuarantinePciDevice, call: Call) -> None:
        self._tracker.set_quarantine(arguments.address, arguments.reason, call)

    @served
    def clear_pci_device(self, arguments: methods.ClearPciDevice, call: Call) -> None:
        self._tracker.set_quarantine(arguments.address, None, call)

    # -- reads ----------------------------------------------------------------------------------

    @served
    def get_claim(self, arguments: methods.GetClaim) -> replies.OneClaim:
        state = self._tracker.snapshot()
        claim = state.claims.get(arguments.claim_uuid)
        if claim is None:
            raise ClaimNotFound(claim_uuid=arguments.claim_uuid)
        return replies.OneClaim(
            claim=self._shown(claim), revision=state.revision, stale=self._tracker.stale
        )

    @served
    def get_claims_for_instance(self, arguments: methods.GetClaimsForInstance) -> replies.Claims:
        state = self._tracker.snapshot()
        claims = state.claims_of(arguments.instance_uuid)
        return self._claims(claims, state)

    @served
    def get_claims_for_host(self, arguments: Arguments) -> replies.Claims:
        state = self._tracker.snapshot()
        claims = tuple(sorted(state.claims.values(), key=lambda c: (c.created_at, c.uuid)))
        return self._claims(claims, state)

    @served
    def get_node(self, arguments: Arguments) -> replies.OneNode:
        state = self._tracker.snapshot()
        return replies.OneNode(
            node=compute_node(state), revision=state.revision, stale=self._tracker.stale
        )

    # -- the node and its service ---------------------------------------------------------------

    @served
    def update_available_resource(self, arguments: Arguments) -> Mapping[str, Any]:
        return self._auditor.run("request").as_dict()

    @served
    def sync_placement(self, arguments: Arguments) -> replies.Mirrored:
        return replies.Mirrored(revision=self._sync_placement())

    @served
    def build_failed(self, arguments: Change, call: Call) -> None:
        self._tracker.build_failed(call)

    @served
    def build_succeeded(self, arguments: Change, call: Call) -> None:
        self._tracker.build_succeeded(call)

    @served
    def set_service(self, arguments: methods.SetService, call: Call) -> Service:
        host = self._tracker.snapshot().node.host
        news = arguments.disabled, arguments.disabled_reason
        self._tracker.once(call, lambda: self._registry.set_disabled(host, *news))
        return next(each for each in self._registry.services() if each.host == host)

    @served
    def ping(self, arguments: Arguments) -> replies.Pong:
        state = self._tracker.snapshot()
        return replies.Pong(
            version=self._version,
            host=state.node.host,
            node=state.node.hypervisor_hostname,
            revision=state.revision,
            uptime=self._clock.monotonic() - self._began,
        )

    # -- every call -----------------------------------------------------------------------------

    def _serve(
        self,
        method: Method,
        handler: Callable[..., Any],
        context: RequestContext,
        document: dict[str, Any],
    ) -> Any:
        began = self._clock.monotonic()
        outcome = "ok"
        try:
            with self._in_flight.call(f"{method.name} ({request_id(context)})"):
                return self._handle(method, handler, context, document)
        except RtAgentError as error:
            outcome = type(error).__name__
            sentence = f"{method.name}: {error.message}"[:MAX_SENTENCE]
            self._reporter.said("info" if error.expected else "error", sentence)
            raise
        except Exception as error:
            outcome = type(error).__name__
            raise
        finally:
            self._reporter.timed("rpc", method.name, self._clock.monotonic() - began)
            self._reporter.counted("rpc", outcome)

    def _handle(
        self,
        method: Method,
        handler: Callable[..., Any],
        context: RequestContext,
        document: dict[str, Any],
    ) -> Any:
        arguments: Any = self._validators[method.name](document)
        self._check_node(arguments.node)
        if not method.changes:
            return _primitives(handler(self, arguments))
        call = Call(
            method=method.name,
            operation_id=arguments.operation_id,
            digest=digest(method, document),
            actor=actor(context),
            request_id=request_id(context),
        )
        return _primitives(handler(self, arguments, call))

    def _end_pci_claims(
        self, arguments: methods.PciClaimChange | methods.PciClaimsEnd, verb: str, call: Call
    ) -> None:
        owner, claim = arguments.instance_uuid, arguments.claim_uuid
        self._tracker.end_pci_claims(owner, claim, verb, call)

    def _ready(self, claim: Claim) -> replies.Claim:
        """A claim whose domain may be started as soon as this is answered."""
        self._settle(claim)
        return self._shown(claim)

    def _shown(self, claim: Claim) -> replies.Claim:
        fields = {name: getattr(claim, name) for name in Claim.__struct_fields__}
        guest, node_devices = self._guest.xml(claim), self._guest.node_devices(claim)
        return replies.Claim(**fields, guest=guest, node_devices=node_devices)

    def _claims(self, claims: Iterable[Claim], state: HostState) -> replies.Claims:
        shown = tuple(map(self._shown, claims))
        return replies.Claims(claims=shown, revision=state.revision, stale=self._tracker.stale)

    def _check_node(self, node: str | None) -> None:
        served_here = self._tracker.snapshot().node.hypervisor_hostname
        if node not in (None, served_here):
            raise NodeNotFound(node=node, served=served_here)


def _primitives(reply: Any) -> Any:
    """JSON's own: no tuple is left, so that every transport gives its caller the same."""
    return msgspec.json.decode(msgspec.json.encode(reply))
