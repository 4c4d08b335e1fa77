"""rtagent claim release, claim abort: end claims."""

import argparse
from collections.abc import Mapping
from typing import Any, ClassVar

from rtagent.cmd.base import Action, with_dry_run
from rtagent.cmd.claim import with_uuid
from rtagent.errors import GuestRunning, InvalidRequest
from rtagent.model.claim import ACTIVE, ATTACH, BUILDING

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
                "claim release", "--force", "needs a --reason, which the history keeps"
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
    becomes an orphan.
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


class ClaimAbort(_End):
    """Abort a build and release its claim.

    An operation id that the agent does not know is recorded as ended, so that a later call with
    that id is refused.
    """

    method, ended = "abort_instance_claim", "aborted"
