"""rtagent claim: the commands that ask the agent to decide or to change."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from cliff.formatters.base import ListFormatter
from stevedore import ExtensionManager

from rtagent.cmd import request
from rtagent.cmd.claim import Row, shown
from rtagent.cmd.exits import Exit
from rtagent.cmd.listing import Act, Show
from rtagent.errors import AgentUnreachable, ComputeResourcesUnavailable

REASON_COLUMNS = ("resource", "requested", "available", "unit", "where", "code")


class Decided(Show):
    """A command whose answer is a claim, or a refusal with every reason."""

    def run(self, parsed_args: argparse.Namespace) -> int:
        try:
            return super().run(parsed_args)
        except ComputeResourcesUnavailable as refused:
            self._tell(refused.kwargs["reasons"], parsed_args)
            self.app.LOG.error("refused: %s", refused)
            return Exit.REFUSED

    def _tell(self, reasons: Sequence[Mapping[str, Any]], args: argparse.Namespace) -> None:
        """As a list, which formats that show one thing do not all know."""
        formats: ExtensionManager[ListFormatter] = ExtensionManager(
            "cliff.formatter.list", invoke_on_load=True
        )
        name = args.formatter if args.formatter in formats.names() else "table"
        formatter = formats[name].obj
        assert formatter is not None
        rows = [tuple(reason[column] for column in REASON_COLUMNS) for reason in reasons]
        formatter.emit_list(REASON_COLUMNS, rows, self.app.stdout, args)


class ClaimCreate(Decided):
    """Hold resources for a build: a claim in state building, leased

    A refusal lists every reason, nearest miss first, and exits with 3.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        request.add_arguments(parser)
        parser.add_argument(
            "--operation-id",
            metavar="UUID",
            help="The claim's uuid to be; that of an earlier call repeats it. Default: the file's,"
            " or a new one.",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Row:
        arguments = request.arguments(parsed_args)
        operation_id = request.identify(arguments, parsed_args.operation_id)
        request.check("instance_claim", parsed_args, arguments)
        try:
            claim = self.world.call("instance_claim", **arguments)
        except AgentUnreachable as error:
            remedy = (
                f"{error.kwargs['remedy']} Whether it was granted is not known: repeat it with"
                f" --operation-id {operation_id}, or abort that claim"
            )
            raise AgentUnreachable(**{**error.kwargs, "remedy": remedy}) from error
        return shown(claim)


class ClaimTest(Decided):
    """Say what a claim would be answered now; nothing is held"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        request.add_arguments(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Row:
        arguments = request.arguments(parsed_args)
        request.check("test_claim", parsed_args, arguments)
        verdict = self.world.call("test_claim", **arguments)
        if not verdict["granted"]:
            raise ComputeResourcesUnavailable(reasons=verdict["reasons"])
        return shown(verdict["claim"])


class _Kept(Show):
    """A step after which the claim is still there."""

    method: ClassVar[str]

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("claim", metavar="UUID")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Row:
        return shown(self.world.call(self.method, parsed_args.claim))


class ClaimActivate(_Kept):
    """Say that the domain is about to be started: the lease ends, the claim stays"""

    method = "activate_claim"


class ClaimRenew(_Kept):
    """Give a building claim a new lease"""

    method = "renew_claim"


class _Ended(Act):
    """The end of a claim; of one that has ended already, nothing more happens."""

    method: ClassVar[str]

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("claim", metavar="UUID")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        self.world.call(self.method, parsed_args.claim)
        self.app.LOG.info("claim %s holds nothing any more", parsed_args.claim)


class ClaimRelease(_Ended):
    """Release a claim, wholly

    Nothing is done to a domain that runs on it: it is an orphan from then on.
    """

    method = "release_claim"


class ClaimAbort(_Ended):
    """Give up a build and release its claim

    Of an operation id that the agent has never seen: refuse its claim for ever.
    """

    method = "abort_instance_claim"
