"""rtagent server owed: what is owed to hosts that did not answer."""

from __future__ import annotations

import argparse
from typing import Any

from rtagent.cmd.base import Action, Cells, List, Rows, rows, with_dry_run
from rtagent.cmd.client import Client
from rtagent.cmd.output import OrEmpty, timestamp
from rtagent.cmd.server import Working
from rtagent.conductor.errors import OperationNotFound
from rtagent.conductor.opening import open_records
from rtagent.conductor.operations import TABLES
from rtagent.conductor.progress import progress_of
from rtagent.model.server import ServerOperation


def _host(operation: ServerOperation) -> Any:
    source = progress_of(operation.progress).source
    return OrEmpty(source and source.host)


def _owed(client: Client) -> list[ServerOperation]:
    found = open_records(client.settings).operations(running=True)
    return [each for each in found if TABLES[each.kind].alone]


_COLUMNS: Cells = {
    "operation": lambda owed: owed.uuid,
    "kind": lambda owed: owed.kind,
    "server": lambda owed: owed.server_uuid,
    "host": _host,
    "step": lambda owed: owed.step,
    "since": lambda owed: timestamp(owed.created_at.isoformat()),
    "reason": lambda owed: OrEmpty(progress_of(owed.progress).reason),
    "error": lambda owed: OrEmpty(owed.error and owed.error["message"]),
}


class ServerOwedList(List):
    """List what is owed to hosts that did not answer, oldest first. `server resume` ends it."""

    nouns = "owed operations"

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        return rows(_COLUMNS, _owed(self.app.client))


class ServerOwedDrop(Action, Working):
    """Give up what is owed to a host that will never be back.

    If the host comes back nevertheless, the guest and its claim are still there.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("operation", metavar="OPERATION", help="Its uuid: server owed list.")
        parser.add_argument("--reason", metavar="TEXT", required=True, help="Why; it is logged.")
        return with_dry_run(parser, "give up")

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        if parsed_args.dry_run:
            self._show(parsed_args.operation)
            return
        with self.conductor() as conductor:
            dropped = conductor.drop_owed(parsed_args.operation, parsed_args.reason)
        self.app.LOG.warning(
            "%s of server %s at %s was dropped: %s",
            dropped.kind,
            dropped.server_uuid,
            _host(dropped),
            parsed_args.reason,
        )

    def _show(self, uuid: str) -> None:
        """Log what would be given up. :raises OperationNotFound:"""
        found = next((each for each in _owed(self.app.client) if each.uuid == uuid), None)
        if found is None:
            raise OperationNotFound(operation_uuid=uuid)
        host, at_work = _host(found), found.owner is not None
        self.app.LOG.info(
            "%s of server %s at %s would be given up%s",
            *(found.kind, found.server_uuid, host),
            ", when the conductor that works on it stops" if at_work else "",
        )
