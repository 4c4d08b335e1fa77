"""rtagent claim: list, show and end claims, and make the calls of a conductor."""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from cliff.formatters.base import ListFormatter
from stevedore import ExtensionManager

from rtagent.cmd import claim_request, output
from rtagent.cmd.base import Action, List, Row, Rows, Show, Text, columns, row, rows, with_dry_run
from rtagent.cmd.exit_codes import Exit
from rtagent.cmd.output import SafeFormatter, plain_xml
from rtagent.errors import (
    AgentUnreachable,
    ClaimNotFound,
    ComputeResourcesUnavailable,
    GuestRunning,
    InvalidRequest,
)
from rtagent.model.base import Converter
from rtagent.model.claim import ACTIVE, ATTACH, BUILDING, Claim

_Document = Mapping[str, Any]

#: The method that releases devices of an attach claim, by its state.
_RELEASING = {BUILDING: "unclaim_pci_devices", ACTIVE: "free_pci_device_allocations_for_instance"}


class _End(Action):
    """A call that ends a claim. A claim that has ended before is no error.

    :cvar ended: the past participle for the message.
    """

    method: ClassVar[str]
    ended: ClassVar[str]

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        with_uuid(parser)
        parser.add_argument(
            "--force",
            action="store_true",
            help="End the claim although its guest runs on the host; needs --reason. The guest is"
            " an orphan afterwards.",
        )
        parser.add_argument("--reason", help="The reason, which the history of the claim keeps.")
        with_dry_run(parser, "end")

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        uuid, client = parsed_args.claim, self.app.client
        if parsed_args.force and not parsed_args.reason:
            raise InvalidRequest.at(
                f"{self.cmd_name}", "--force", "needs a --reason, which the history keeps"
            )
        if parsed_args.dry_run:
            self._show(client.call("test_release", uuid), parsed_args.force)
            return
        unless_running = None if parsed_args.force else True
        named = {"unless_running": unless_running, "reason": parsed_args.reason}
        client.call(self.method, uuid, **named)
        self.app.LOG.info("claim %s is %s", uuid, self.ended)

    def _show(self, tested: _Document, force: bool) -> None:
        """Log what would end. :raises GuestRunning: the claim would not end without --force."""
        claim = tested["claim"]
        if tested["guest_runs"] and not force:
            raise GuestRunning(claim_uuid=claim["uuid"], owner_id=claim["owner_id"])
        self.app.LOG.info(
            "claim %s of instance %s would be %s: %s vCPUs, %s CPUs, %s MB, %s MB of disk,"
            " %s devices",
            *(claim["uuid"], claim["owner_id"], self.ended, claim["vcpus"], claim["pcpus"]),
            *(claim["memory_mb"], claim["disk_mb"], len(claim["pci"]) + len(claim["resources"])),
        )


class ClaimRelease(_End):
    """Release a claim and all its resources, or some devices of a claim of kind attach.

    If its guest runs on the host, --force and a --reason are needed. The guest is not touched: it
    becomes an orphan. A claim that has ended before is no error; one that was never there is.
    """

    method, ended = "release_claim", "released"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--device",
            metavar="ADDRESS",
            action="append",
            help="Release this device only, like 0000:08:00.0; may be repeated. The claim, of kind"
            " attach, keeps its other devices.",
        )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        if parsed_args.device is None:
            self._check_recorded(parsed_args.claim)
            super().take_action(parsed_args)
            return
        for name in ("force", "reason", "dry_run"):
            if getattr(parsed_args, name):
                raise InvalidRequest.at(
                    "claim release", "--device", f"cannot be combined with --{name}"
                )
        claim = self.app.client.read("claims", parsed_args.claim)["claim"]
        if claim["kind"] != ATTACH:
            rule = f"a claim of kind {claim['kind']} keeps its devices until it ends"
            raise InvalidRequest.at("claim release", "--device", rule)
        method = _RELEASING[claim["state"]]
        devices = parsed_args.device
        self.app.client.call(method, claim["owner_id"], parsed_args.claim, devices=devices)
        self.app.LOG.info("claim %s gave back %s", parsed_args.claim, ", ".join(devices))

    def _check_recorded(self, uuid: str) -> None:
        """The call ends an id that was never used, too: the uuid of an instance, for example.

        :raises ClaimNotFound: no claim has, or had, this uuid.
        """
        from rtagent.cmd.rpc_caller import RpcReader

        reader = RpcReader(self.app.client.caller)
        try:
            reader.get("claims", uuid)
        except ClaimNotFound:
            reader.get("claims", uuid, "history")


class ClaimAbort(_End):
    """Abort a build and release its claim.

    An operation id that the agent does not know is recorded as ended, so that a later call with
    that id is refused.
    """

    method, ended = "abort_instance_claim", "aborted"


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
    """List the events of a claim from the database, also after it has ended.

    With --host, the agent of that host is asked for them.
    """

    nouns = "events of that claim"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        with_uuid(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        client = self.app.client
        events: Sequence[Any]
        if client.options.host:
            events = self._asked(parsed_args.claim)
        else:
            events = client.database.history(parsed_args.claim)
        if not events:
            raise ClaimNotFound(claim_uuid=parsed_args.claim)
        return rows(_HISTORY, events)

    def _asked(self, uuid: str) -> Sequence[_Document]:
        """Return the events that an agent has, oldest first."""
        events: list[_Document] = []
        before = None
        while True:
            page = self.app.client.read("claims", uuid, "history", before=before)
            events += page["history"]
            if page["older"] is None:
                return events[::-1]
            before = str(page["older"])


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
            rule = str(getattr(error, "strerror", None) or error)
            raise InvalidRequest.at("claim domain", str(parsed_args.file), rule) from error
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
