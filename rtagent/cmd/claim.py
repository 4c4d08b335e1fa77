"""rtagent claim: list and show claims, and make the calls of a conductor."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any, ClassVar

from cliff.formatters.base import ListFormatter
from stevedore import ExtensionManager

from rtagent.cmd import claim_request
from rtagent.cmd.base import Cells, List, Row, Rows, Show, Text, row, rows
from rtagent.cmd.cells import SafeFormatter, plain_xml
from rtagent.cmd.exit_codes import Exit
from rtagent.cmd.output import (
    Allocations,
    AssignedQuantities,
    AssignedResources,
    Assignment,
    Devices,
    KeyValues,
    OrEmpty,
    PciRequests,
    YesNo,
    timestamp,
)
from rtagent.errors import (
    AgentUnreachable,
    ComputeResourcesUnavailable,
    InvalidRequest,
)
from rtagent.model.claim import ATTACH, Claim
from rtagent.model.converter import Converter

_Document = Mapping[str, Any]

_REASON_COLUMNS: Cells = {
    name: itemgetter(name)
    for name in ("resource", "requested", "available", "unit", "where", "code")
}
_claims = Converter(Claim, strict=False, str_keys=True)


def _optional(name: str) -> Callable[[_Document], Any]:
    return lambda claim: OrEmpty(claim.get(name))


def _of_instance(name: str) -> Callable[[_Document], Any]:
    return lambda claim: OrEmpty(claim["instance"].get(name))


def _time(name: str) -> Callable[[_Document], Any]:
    return lambda claim: timestamp(claim.get(name))


def _key_values(name: str) -> Callable[[_Document], Any]:
    return lambda claim: KeyValues(claim.get(name) or {})


_LIST_COLUMNS: Cells = {
    "uuid": itemgetter("uuid"),
    "instance_uuid": itemgetter("owner_id"),
    "display_name": _of_instance("display_name"),
    "state": itemgetter("state"),
    "suspect": lambda claim: YesNo(claim["suspect"]),
    "vcpus": itemgetter("vcpus"),
    "memory_mb": itemgetter("memory_mb"),
    "disk_mb": itemgetter("disk_mb"),
    "created_at": _time("created_at"),
}
_LONG_LIST_COLUMNS: Cells = {
    **_LIST_COLUMNS,
    "expires_at": _time("expires_at"),
    "flag": _optional("flag"),
    "kind": itemgetter("kind"),
    "node": itemgetter("node"),
    "project_id": _of_instance("project_id"),
    "vm_state": _of_instance("vm_state"),
    "task_state": _of_instance("task_state"),
    "tag": _optional("tag"),
}
_SHOW_COLUMNS: Cells = {
    "uuid": itemgetter("uuid"),
    "state": itemgetter("state"),
    "suspect": _optional("suspect"),
    "kind": itemgetter("kind"),
    "instance_uuid": itemgetter("owner_id"),
    **{
        name: _of_instance(name)
        for name in ("display_name", "project_id", "user_id", "vm_state", "task_state", "os_type")
    },
    "is_volume_backed": lambda claim: YesNo(claim["instance"].get("is_volume_backed")),
    "host": itemgetter("host"),
    "node": itemgetter("node"),
    "vcpus": itemgetter("vcpus"),
    "pcpus": itemgetter("pcpus"),
    "memory_mb": itemgetter("memory_mb"),
    "disk_mb": itemgetter("disk_mb"),
    "numa_topology": lambda claim: Assignment(claim["numa_topology"]),
    "pci": lambda claim: Devices(claim["pci"]),
    "resources": lambda claim: AssignedResources(claim["resources"]),
    "quantities": lambda claim: AssignedQuantities(claim["quantities"]),
    "mem_encryption": _key_values("mem_encryption"),
    "allocations": lambda claim: Allocations(claim["allocations"] or {}),
    "provider_mapping": _key_values("provider_mapping"),
    "flavor": _key_values("flavor"),
    "image": lambda claim: KeyValues(claim["image"].get("properties") or {}),
    "limits": _key_values("limits"),
    "pci_requests": lambda claim: PciRequests(claim["pci_requests"]),
    "extra_resource": _key_values("extra_resource"),
    "tag": _optional("tag"),
    "migration_uuid": _optional("migration_uuid"),
    "created_at": _time("created_at"),
    "updated_at": _time("updated_at"),
    "expires_at": _time("expires_at"),
    "revision": itemgetter("revision"),
}
_HISTORY_COLUMNS: Cells = {
    "at": lambda event: timestamp(event.at.isoformat()),
    "action": lambda event: event.action,
    "before": lambda event: OrEmpty(event.before and event.before.state),
    "after": lambda event: event.after.state,
    "vcpus": lambda event: event.after.vcpus,
    "memory_mb": lambda event: event.after.memory_mb,
    "disk_mb": lambda event: event.after.disk_mb,
    "migration_uuid": lambda event: OrEmpty(event.after.migration_uuid),
    "actor": lambda event: event.actor,
    "request_id": lambda event: event.request_id,
    "reason": lambda event: event.reason,
}


class ClaimList(List):
    """List the claims that have not ended, oldest first."""

    nouns = "claims"

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--instance", metavar="UUID", help="Only claims of this instance.")
        parser.add_argument("--state", help="Only claims in this state, for example active.")
        parser.add_argument("--long", action="store_true", help="Show more columns.")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        filters = {"instance": parsed_args.instance, "state": parsed_args.state}
        found = self.app.client.read("claims", **filters)
        flags = found.get("flags", {})
        claims = [{**each, "flag": flags.get(each["uuid"])} for each in found["claims"]]
        columns = _LONG_LIST_COLUMNS if parsed_args.long else _LIST_COLUMNS
        return rows(columns, claims)


class ClaimShow(Show):
    """Show all fields of a claim that has not ended."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        return with_uuid(super().get_parser(prog_name))

    def take_action(self, parsed_args: argparse.Namespace) -> Row:
        return row(_SHOW_COLUMNS, self.app.client.read("claims", parsed_args.claim)["claim"])


class ClaimHistory(List):
    """List the events of a claim from the database, also after it has ended."""

    nouns = "events of that claim"

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        return with_uuid(super().get_parser(prog_name))

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        return rows(_HISTORY_COLUMNS, self.app.client.database.history(parsed_args.claim))


class ClaimDomain(Text):
    """Print a libvirt domain document with the resources of a claim.

    The CPUs, cells, pages and devices in FILE are replaced by those of the claim; all else stays.
    Devices that are attached to the guest stay, too.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = with_uuid(super().get_parser(prog_name))
        parser.add_argument("file", metavar="FILE", type=Path, help="A libvirt domain document.")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Row:
        from rtagent.virt.libvirt import guest
        from rtagent.virt.libvirt.document import BadDocument

        claim = _claim(self.app.client.read("claims", parsed_args.claim)["claim"])
        others = self.app.client.read("claims", instance=claim.owner_id)["claims"]
        attached = [each for each in map(_claim, others) if each.kind == ATTACH]
        try:
            document = guest.apply(parsed_args.file.read_bytes(), claim, attached)
        except (BadDocument, OSError) as error:
            mistake = {"path": str(parsed_args.file), "message": str(error)}
            raise InvalidRequest(method="claim domain", errors=[mistake]) from error
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
        columns, cells = rows(_REASON_COLUMNS, reasons)
        SafeFormatter(name, formatter).emit_list(columns, cells, self.app.stdout, args)


class ClaimCreate(_Decision):
    """Create a claim for a build: state building, with a lease.

    A refusal lists all reasons, the smallest shortfall first, and the exit code is 3.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        claim_request.add_arguments(parser)
        parser.add_argument(
            "--operation-id",
            metavar="UUID",
            help="The operation id, which becomes the uuid of the claim. The id of an earlier call"
            " repeats that call. Default: that of the file, or a new one.",
        )
        return parser

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
        return row(_SHOW_COLUMNS, claim)


class ClaimTest(_Decision):
    """Show whether a claim would be granted now; nothing is claimed.

    A refusal lists all reasons, the smallest shortfall first, and the exit code is 3.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        claim_request.add_arguments(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Row:
        arguments = claim_request.arguments(parsed_args)
        claim_request.check("test_claim", parsed_args, arguments)
        verdict = self.app.client.call("test_claim", **arguments)
        if not verdict["granted"]:
            raise ComputeResourcesUnavailable(reasons=verdict["reasons"])
        return row(_SHOW_COLUMNS, verdict["claim"])


class _Update(Show):
    """A call that returns the claim."""

    method: ClassVar[str]

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        return with_uuid(super().get_parser(prog_name))

    def take_action(self, parsed_args: argparse.Namespace) -> Row:
        return row(_SHOW_COLUMNS, self.app.client.call(self.method, parsed_args.claim))


class ClaimActivate(_Update):
    """Activate a building claim, before its domain is started: the lease ends."""

    method = "activate_claim"


class ClaimRenew(_Update):
    """Renew the lease of a building claim."""

    method = "renew_claim"


def with_uuid(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Add the argument that names a claim."""
    parser.add_argument("claim", metavar="UUID", help="The uuid of the claim.")
    return parser


def _claim(document: _Document) -> Claim:
    return _claims.convert(document)
