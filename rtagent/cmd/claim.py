"""rtagent claim: list and show claims, and make the calls of a conductor."""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from cliff.formatters.base import ListFormatter
from stevedore import ExtensionManager

from rtagent.cmd import claim_request, output
from rtagent.cmd.base import List, Row, Rows, Show, Text, columns, row, rows
from rtagent.cmd.cells import SafeFormatter, plain_xml
from rtagent.cmd.exit_codes import Exit
from rtagent.errors import AgentUnreachable, ComputeResourcesUnavailable, InvalidRequest
from rtagent.model.claim import ATTACH, Claim
from rtagent.model.converter import Converter

_Document = Mapping[str, Any]

_claims = Converter(Claim, strict=False, str_keys=True)

_REASONS = columns("resource", "requested", "available", "unit", "where", "code")
_LIST = columns(
    *("uuid", "instance_uuid=owner_id", "display_name=instance.display_name", "state", "suspect"),
    *("vcpus", "memory_mb", "disk_mb", "created_at"),
    display_name=output.OrEmpty,
    suspect=output.YesNo,
    created_at=output.timestamp,
)
_LONG_LIST = {
    **_LIST,
    **columns(
        *("expires_at", "flag", "kind", "node", "project_id=instance.project_id"),
        *("vm_state=instance.vm_state", "task_state=instance.task_state", "tag"),
        expires_at=output.timestamp,
        **dict.fromkeys(("flag", "project_id", "vm_state", "task_state", "tag"), output.OrEmpty),
    ),
}
_INSTANCE = ("display_name", "project_id", "user_id", "vm_state", "task_state", "os_type")
_SHOW = columns(
    *("uuid", "state", "suspect", "kind", "instance_uuid=owner_id"),
    *(f"{name}=instance.{name}" for name in _INSTANCE),
    *("is_volume_backed=instance.is_volume_backed", "host", "node", "vcpus", "pcpus", "memory_mb"),
    *("disk_mb", "numa_topology", "pci", "resources", "quantities", "mem_encryption"),
    *("allocations", "provider_mapping", "flavor", "image=image.properties", "limits"),
    *("pci_requests", "extra_resource", "tag", "migration_uuid", "created_at", "updated_at"),
    *("expires_at", "revision"),
    is_volume_backed=output.YesNo,
    numa_topology=output.AssignmentLines,
    pci=output.DeviceLines,
    resources=output.AssignedResources,
    quantities=output.AssignedQuantities,
    allocations=lambda allocations: output.AllocationLines(allocations or {}),
    pci_requests=output.PciRequests,
    **dict.fromkeys(("suspect", *_INSTANCE, "tag", "migration_uuid"), output.OrEmpty),
    **dict.fromkeys(
        ("mem_encryption", "provider_mapping", "flavor", "image", "limits", "extra_resource"),
        output.mapping,
    ),
    **dict.fromkeys(("created_at", "updated_at", "expires_at"), output.timestamp),
)
_HISTORY = columns(
    *("at", "action", "before=before.state", "after=after.state", "vcpus=after.vcpus"),
    *("memory_mb=after.memory_mb", "disk_mb=after.disk_mb"),
    *("migration_uuid=after.migration_uuid", "actor", "request_id", "reason"),
    at=output.timestamp,
    before=output.OrEmpty,
    migration_uuid=output.OrEmpty,
)


class ClaimList(List):
    """List the claims that have not ended, oldest first."""

    nouns = "claims"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--instance", metavar="UUID", help="Only claims of this instance.")
        parser.add_argument("--state", help="Only claims in this state, for example active.")
        parser.add_argument("--long", action="store_true", help="Show more columns.")

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        filters = {"instance": parsed_args.instance, "state": parsed_args.state}
        found = self.app.client.read("claims", **filters)
        flags = found.get("flags", {})
        claims = [{**each, "flag": flags.get(each["uuid"])} for each in found["claims"]]
        return rows(_LONG_LIST if parsed_args.long else _LIST, claims)


class ClaimShow(Show):
    """Show all fields of a claim that has not ended."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        with_uuid(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> Row:
        return row(_SHOW, self.app.client.read("claims", parsed_args.claim)["claim"])


class ClaimHistory(List):
    """List the events of a claim from the database, also after it has ended."""

    nouns = "events of that claim"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        with_uuid(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        return rows(_HISTORY, self.app.client.database.history(parsed_args.claim))


class ClaimDomain(Text):
    """Print a libvirt domain document with the resources of a claim.

    The CPUs, cells, pages and devices in FILE are replaced by those of the claim; all else stays.
    Devices that are attached to the guest stay, too.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        with_uuid(parser)
        parser.add_argument("file", metavar="FILE", type=Path, help="A libvirt domain document.")

    def take_action(self, parsed_args: argparse.Namespace) -> Row:
        from rtagent.virt.libvirt import guest
        from rtagent.virt.libvirt.document import BadDocument

        claim = _claims.convert(self.app.client.read("claims", parsed_args.claim)["claim"])
        others = self.app.client.read("claims", instance=claim.owner_id)["claims"]
        attached = [each for each in map(_claims.convert, others) if each.kind == ATTACH]
        try:
            document = guest.apply(parsed_args.file.read_bytes(), claim, attached)
        except (BadDocument, OSError) as error:
            raise InvalidRequest.at("claim domain", str(parsed_args.file), str(error)) from error
        return ("claim", "document"), (claim.uuid, plain_xml(document))


class _Decision(Show):
    """A command that prints a claim, or the reasons for a refusal."""

    def run(self, parsed_args: argparse.Namespace) -> int:
        try:
            return super().run(parsed_args)
        except ComputeResourcesUnavailable as refused:
            self._print_reasons(refused.kwargs["reasons"], parsed_args)
            self.app.LOG.error("refused: %s", refused)
            return Exit.REFUSED

    def _print_reasons(self, reasons: Sequence[_Document], args: argparse.Namespace) -> None:
        """Print a list. Formats for a single item that lists do not have are replaced by table."""
        formats: ExtensionManager[ListFormatter] = ExtensionManager(
            "cliff.formatter.list", invoke_on_load=True
        )
        name = args.formatter if args.formatter in formats.names() else "table"
        formatter = formats[name].obj
        assert formatter is not None
        SafeFormatter(name, formatter).emit_list(*rows(_REASONS, reasons), self.app.stdout, args)


class ClaimCreate(_Decision):
    """Create a claim for a build: state building, with a lease.

    A refusal lists all reasons, the smallest shortfall first, and the exit code is 3.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        claim_request.add_arguments(parser)
        parser.add_argument(
            "--operation-id",
            metavar="UUID",
            help="The operation id, which becomes the uuid of the claim. The id of an earlier call"
            " repeats that call. Default: that of the file, or a new one.",
        )

    def take_action(self, parsed_args: argparse.Namespace) -> Row:
        arguments = claim_request.arguments(parsed_args)
        operation_id = claim_request.identify(arguments, parsed_args.operation_id)
        claim_request.check("instance_claim", parsed_args, arguments)
        try:
            claim = self.app.client.call("instance_claim", **arguments)
        except AgentUnreachable as error:
            remedy = (
                f"{error.kwargs['remedy']} The claim may have been granted: repeat the command with"
                f" --operation-id {operation_id}, or abort that claim"
            )
            raise AgentUnreachable(**{**error.kwargs, "remedy": remedy}) from error
        return row(_SHOW, claim)


class ClaimTest(_Decision):
    """Show whether a claim would be granted now; nothing is claimed.

    A refusal lists all reasons, the smallest shortfall first, and the exit code is 3.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        claim_request.add_arguments(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> Row:
        arguments = claim_request.arguments(parsed_args)
        claim_request.check("test_claim", parsed_args, arguments)
        verdict = self.app.client.call("test_claim", **arguments)
        if not verdict["granted"]:
            raise ComputeResourcesUnavailable(reasons=verdict["reasons"])
        return row(_SHOW, verdict["claim"])


class _Update(Show):
    """A call that returns the claim."""

    method: ClassVar[str]

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        with_uuid(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> Row:
        return row(_SHOW, self.app.client.call(self.method, parsed_args.claim))


class ClaimActivate(_Update):
    """Activate a building claim, before its domain is started: the lease ends."""

    method = "activate_claim"


class ClaimRenew(_Update):
    """Renew the lease of a building claim."""

    method = "renew_claim"


def with_uuid(parser: argparse.ArgumentParser) -> None:
    """Add the argument that names a claim."""
    parser.add_argument("claim", metavar="UUID", help="The uuid of the claim.")
