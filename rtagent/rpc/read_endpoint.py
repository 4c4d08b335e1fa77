"""The methods that change nothing: a test of a claim, and reads of snapshot and documents."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from rtagent.claims import instance_claim
from rtagent.errors import InvalidRequest
from rtagent.lifecycle.attach import claim_pci_devices
from rtagent.lifecycle.moves import move_claim
from rtagent.lifecycle.transitions import live
from rtagent.model.base import STORABLE, SomeItems, Uuid, made_from
from rtagent.model.decision import Decision, Granted
from rtagent.model.migration import MigrationFacts, SourceFacts
from rtagent.model.request import Arguments, AttachRequest, BuildRequest, Flavor, Image, PciRequest
from rtagent.rpc import replies
from rtagent.rpc.claim_endpoint import ClaimPciDevices, InstanceClaim
from rtagent.rpc.errors import DocumentTooLarge
from rtagent.rpc.method import FLAVOR_ERRORS, rpc_method
from rtagent.rpc.move_endpoint import LiveMigrationClaim, RebuildClaim, ResizeClaim, move_request
from rtagent.rpc.roles import READER
from rtagent.rpc.served_agent import ServedAgent
from rtagent.state.compute_node import compute_node
from rtagent.tracker import ResourceTracker


class TestClaim(BuildRequest, frozen=True, kw_only=True):
    """:ivar kind: the claim whose decision is tested. Each kind takes the arguments of its own
        method, and requires the same of them, except the migration's record.
    :ivar pci_requests: kind ``attach``: the devices to be added.
    :ivar flavor: resize or cold migration: the new one. :ivar image: resize, cold migration or
        evacuation: the new one.
    """

    kind: Literal["build", "attach", "resize", "migration", "live-migration", "evacuation"] = (
        "build"
    )
    pci_requests: SomeItems[PciRequest] | None = None
    flavor: Flavor | None = None
    image: Image | None = None
    migration: MigrationFacts | None = None
    source: SourceFacts | None = None


class GetClaim(Arguments, frozen=True, kw_only=True):
    """One claim."""

    claim_uuid: Uuid


class GetClaimsForInstance(Arguments, frozen=True, kw_only=True):
    """An instance's claims."""

    instance_uuid: Uuid


#: The arguments that a claim of each kind takes.
_ARGUMENTS: Mapping[str, type[Arguments]] = {
    "build": InstanceClaim,
    "attach": ClaimPciDevices,
    "resize": ResizeClaim,
    "migration": ResizeClaim,
    "live-migration": LiveMigrationClaim,
    "evacuation": RebuildClaim,
}
#: Arguments that a test does not require, because it records nothing.
_NOT_REQUIRED = frozenset({"operation_id", "migration"})


@rpc_method(
    READER,
    errors=(
        *FLAVOR_ERRORS,
        "AllocationMismatch",
        *("ClaimConflict", "ClaimNotFound", "StoreUnavailable", "NodeNotReady"),
        *("StoreRestored", "HypervisorUnavailable", "NodeDraining"),
    ),
)
def test_claim(agent: ServedAgent, arguments: TestClaim) -> replies.Verdict:
    """Decide a claim without making it: the reply that the claim would get now, with every reason.
    Changes nothing."""
    decision = tested(agent.tracker, arguments)
    if isinstance(decision, Granted):
        return replies.Verdict(granted=True, claim=agent.claim(decision.claims[0]))
    reasons: list[dict[str, Any]] = [reason.as_dict() for reason in decision.reasons]
    return replies.Verdict(
        granted=False, reasons=tuple(replies.Reason(**reason) for reason in reasons)
    )


@rpc_method(READER, errors=("ClaimNotFound",))
def get_claim(agent: ServedAgent, arguments: GetClaim) -> replies.OneClaim:
    """Return one live claim."""
    state = agent.tracker.snapshot()
    claim = agent.claim(live(state, arguments.claim_uuid))
    return replies.OneClaim(claim=claim, revision=state.revision, stale=agent.tracker.stale)


@rpc_method(READER)
def get_claims_for_instance(agent: ServedAgent, arguments: GetClaimsForInstance) -> replies.Claims:
    """Return an instance's live claims on this node, oldest first."""
    state = agent.tracker.snapshot()
    return agent.claims(state.claims_of(arguments.instance_uuid), state)


@rpc_method(READER)
def get_claims_for_host(agent: ServedAgent, arguments: Arguments) -> replies.Claims:
    """Return every live claim of this node, oldest first."""
    state = agent.tracker.snapshot()
    claims = sorted(state.claims.values(), key=lambda claim: (claim.created_at, claim.uuid))
    return agent.claims(claims, state)


@rpc_method(READER)
def get_node(agent: ServedAgent, arguments: Arguments) -> replies.OneNode:
    """Return the node's record: capacity, usage, ratios and statistics."""
    state = agent.tracker.snapshot()
    node = compute_node(state, agent.metrics())
    return replies.OneNode(node=node, revision=state.revision, stale=agent.tracker.stale)


def tested(tracker: ResourceTracker, arguments: TestClaim) -> Decision:
    """Decide a claim as its own method would.

    :raises InvalidRequest: that method would not take these arguments.
    """
    if errors := [{"path": f"$.{path}", "message": rule} for path, rule in _errors(arguments)]:
        raise InvalidRequest(method="test_claim", errors=errors)
    if arguments.kind == "build":
        return tracker.test_claim(instance_claim, arguments)
    if arguments.kind == "attach":
        requests = arguments.pci_requests or ()
        request = made_from(AttachRequest, arguments, pci_requests=requests)
        return tracker.test_claim(claim_pci_devices, request)
    migration, source = arguments.migration or arguments.kind, arguments.source
    move = move_request(arguments, source, migration, arguments.flavor, arguments.image)
    return tracker.test_claim(move_claim, move)


def _errors(arguments: TestClaim) -> Iterator[tuple[str, str]]:
    kind, migration = arguments.kind, arguments.migration
    fields = {field.name: field for field in msgspec.structs.fields(_ARGUMENTS[kind])}
    for name in sorted(set(TestClaim.__struct_fields__) - {"kind"}):
        given, field = getattr(arguments, name) is not None, fields.get(name)
        if given and field is None:
            yield name, f"is not for kind {kind}"
        if not given and field is not None and field.required and name not in _NOT_REQUIRED:
            yield name, f"is required for kind {kind}"
    if "migration" in fields and migration is not None and migration.migration_type != kind:
        yield "migration.migration_type", f"must be {kind}"


#: The most characters of a document. Such a reply takes the broker about as long as an audit.
MAX_DOCUMENT = 2**23

Path = Annotated[str, Meta(max_length=4096, pattern=STORABLE)]


class GetDocument(Arguments, frozen=True, kw_only=True):
    """:ivar path: with its query, percent-encoded: ``/claims?state=active``."""

    path: Path


@rpc_method(READER, errors=("DocumentTooLarge",))
def get_document(agent: ServedAgent, arguments: GetDocument) -> replies.Document:
    """Return what a GET of the read API returns at a path, for callers who cannot connect to it. An
    error of the read API is a document, too."""
    reply = agent.document(arguments.path)
    text = reply.body.decode(errors="replace")
    if len(text) > MAX_DOCUMENT:
        raise DocumentTooLarge(path=arguments.path, size=len(text), limit=MAX_DOCUMENT)
    return replies.Document(status=reply.status, body=text)
