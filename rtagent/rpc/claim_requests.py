"""Requests for claims, made of what a call brings; those of moves are in `move_requests`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from rtagent.errors import InvalidRequest
from rtagent.model.move import MoveRequest
from rtagent.model.request import AttachRequest, BuildRequest, Limits
from rtagent.rpc.method import Arguments
from rtagent.rpc.methods import BuildArguments, ClaimPciDevices, InstanceClaim, TestClaim
from rtagent.rpc.move_methods import LiveMigrationClaim, RebuildClaim, ResizeClaim
from rtagent.rpc.move_requests import move_request

#: The uuid that a claim has that is not made.
NOT_HELD = "00000000-0000-0000-0000-000000000000"

#: The call whose answer a test of each kind foretells.
_FORETOLD: Mapping[str, type[Arguments]] = {
    "build": InstanceClaim,
    "attach": ClaimPciDevices,
    "resize": ResizeClaim,
    "migration": ResizeClaim,
    "live-migration": LiveMigrationClaim,
    "evacuation": RebuildClaim,
}
#: What those calls need and a test does not: nothing is recorded.
_UNNEEDED = frozenset({"operation_id", "migration"})


def build_request(arguments: BuildArguments, claim_uuid: str) -> BuildRequest:
    """Of a build."""
    return BuildRequest(
        claim_uuid=claim_uuid,
        instance=arguments.instance,
        limits=arguments.limits or Limits(),
        extra_resource=arguments.extra_resource or {},
        tag=arguments.tag,
    )


def attach_request(arguments: ClaimPciDevices | TestClaim, claim_uuid: str) -> AttachRequest:
    """Of devices to be added."""
    return AttachRequest(
        claim_uuid=claim_uuid,
        instance=arguments.instance,
        pci_requests=arguments.pci_requests or (),
    )


def tested_request(arguments: TestClaim) -> BuildRequest | AttachRequest | MoveRequest:
    """As the claim's own call would make it.

    :raises InvalidRequest: that call takes something else.
    """
    if wrong := list(_offences(arguments)):
        errors = [{"path": f"$.{name}", "message": rule} for name, rule in wrong]
        raise InvalidRequest(method="test_claim", errors=errors)
    if arguments.kind == "attach":
        return attach_request(arguments, NOT_HELD)
    if arguments.kind == "build":
        return build_request(arguments, NOT_HELD)
    return move_request(arguments, NOT_HELD, arguments.kind, arguments.flavor, arguments.image)


def _offences(arguments: TestClaim) -> Iterator[tuple[str, str]]:
    fields = {field.name: field for field in msgspec.structs.fields(_FORETOLD[arguments.kind])}
    for name in sorted(set(TestClaim.__struct_fields__) - {"kind"}):
        given, taken = getattr(arguments, name) is not None, fields.get(name)
        if given and taken is None:
            yield name, f"is not for kind {arguments.kind}"
        if not given and taken is not None and taken.required and name not in _UNNEEDED:
            yield name, f"is required for kind {arguments.kind}"
