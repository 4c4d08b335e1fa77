"""rtagent server: build, move and delete servers, with a scheduler and the agents of all hosts."""

import argparse
import getpass
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import rtagent.rpc  # noqa: F401  before oslo.messaging, for which it chooses threads

# isort: split
import msgspec
from oslo_context.context import RequestContext

from rtagent.cmd import server_request
from rtagent.cmd.base import Action, List, Row, Rows, Show, columns, row, rows, with_dry_run
from rtagent.cmd.client import Client
from rtagent.cmd.exit_codes import Exit, exit_code
from rtagent.cmd.output import KeyValues, OrEmpty, timestamp
from rtagent.conductor.conductor import Conductor
from rtagent.conductor.errors import OperationNotFound, ServerConflict, ServerNotFound
from rtagent.conductor.opening import open_conductor, open_records
from rtagent.conductor.operations import TABLES
from rtagent.conductor.run import progress_of
from rtagent.embedded import SystemClock
from rtagent.errors import InvalidRequest, RtAgentError
from rtagent.model.server import Server, ServerOperation
from rtagent.rpc.roles import CONDUCTOR

_LIST = columns(
    *("uuid", "name", "vm_state", "task_state", "host=place.host", "vcpus=spec.flavor.vcpus"),
    *("memory_mb=spec.flavor.memory_mb", "operation=operation_uuid"),
    **dict.fromkeys(("task_state", "host", "operation"), OrEmpty),
)
_SHOW = {
    **_LIST,
    **columns(
        *("flavor=spec.flavor", "claim=place.claim.uuid", "source_host=move.source.host"),
        *("migration=move.migration.uuid", "project_id=spec.project_id", "user_id=spec.user_id"),
        *("created_at", "updated_at"),
        default=OrEmpty,
        flavor=lambda flavor: KeyValues(msgspec.to_builtins(flavor)),
        created_at=timestamp,
        updated_at=timestamp,
    ),
}


class ServerList(List):
    """List the servers of the conductor's database, oldest first."""

    nouns = "servers"

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        return rows(_LIST, open_records(self.app.client.settings).servers())


class ServerShow(Show):
    """Show a server of the conductor's database.

    `schedule decision` shows, by the uuid of the server, why its host was selected.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        with_server(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> Row:
        servers = open_records(self.app.client.settings).servers()
        return row(_SHOW, find(servers, parsed_args.server))


class Working:
    """What commands that work on operations have in common.

    :ivar last: the operation that the conductor works on.
    """

    app: Any
    last: ServerOperation | None = None

    @contextmanager
    def conductor(self) -> Iterator[Conductor]:
        """Open a conductor. Each step is logged. An interrupted operation can be resumed."""
        client = self.app.client
        try:
            with open_conductor(
                client.conf,
                client.settings,
                clock=SystemClock(),
                context=RequestContext(user_id=getpass.getuser(), roles=[CONDUCTOR]),
                timeout=client.options.timeout,
                listener=self._log,
            ) as conductor:
                yield conductor
        except KeyboardInterrupt:
            if self.last is None:
                raise
            self.app.LOG.error(
                "%s of server %s was interrupted before its step %s ended. Continue it with:"
                " rtagent server resume %s",
                self.last.kind,
                self.last.server_uuid,
                self.last.step,
                self.last.uuid,
            )
            raise SystemExit(Exit.RETRY) from None

    def _log(self, operation: ServerOperation) -> None:
        self.last = operation
        selection = progress_of(operation.progress).selection
        self.app.LOG.info(
            "%s %s: %s%s%s",
            operation.kind,
            operation.server_uuid,
            "" if operation.forward else "undo ",
            operation.step,
            f" ({selection.host})" if selection else "",
        )


class OperationCommand(Show, Working):
    """A command that works on one operation, and shows the server after it."""

    def take_action(self, parsed_args: argparse.Namespace) -> Row:
        with self.conductor() as conductor:
            server = self.operate(conductor, parsed_args)
        assert server is not None
        return row(_SHOW, server)

    @abstractmethod
    def operate(self, conductor: Conductor, args: argparse.Namespace) -> Server | None:
        """Work on the operation."""


class ServerBuild(OperationCommand):
    """Build a server: on the host that the scheduler selects, or on a given one.

    If a host refuses, the next one is tried. Each step is logged. An interrupted build can be
    continued: `server resume`.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("name", metavar="NAME", help="The name of the server.")
        parser.add_argument("--uuid", metavar="UUID", help="Its uuid. Default: a new one.")
        parser.add_argument(
            "--domain",
            metavar="FILE",
            help="A libvirt domain document with disks and networks, into which the claim is"
            " merged. Default: a minimal one.",
        )
        server_request.add_arguments(parser)

    def operate(self, conductor: Conductor, args: argparse.Namespace) -> Server | None:
        spec, document = server_request.request(args), server_request.domain_document(args)
        return conductor.build(spec, server_uuid=args.uuid, name=args.name, document=document)


class ServerDelete(Action, Working):
    """Delete a server: its guest, its claims, and its record.

    With --force it is deleted although a host does not answer, and in the middle of another
    operation. What the host has of it is removed later: `server owed list`.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        with_server(parser)
        parser.add_argument(
            "--force",
            action="store_true",
            help="Delete it although a host does not answer. Requires --reason.",
        )
        parser.add_argument("--reason", metavar="TEXT", help="Why it is forced; it is recorded.")
        with_dry_run(parser, "delete")

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        reason = parsed_args.reason
        if parsed_args.force != (reason is not None):
            raise InvalidRequest.at(
                "server delete", "--reason", "give --force and --reason together"
            )
        if parsed_args.dry_run:
            self._show(parsed_args.server, parsed_args.force)
            return
        with self.conductor() as conductor:
            server = find(conductor.servers(), parsed_args.server)
            if not parsed_args.force:
                conductor.delete(server.uuid)
            else:
                conductor.force_delete(server.uuid, reason)
                self._warn([each for each in conductor.owed() if each.server_uuid == server.uuid])
        self.app.LOG.info("server %s is deleted", server.uuid)

    def _show(self, wanted: str, force: bool) -> None:
        """Log what would be deleted. :raises ServerConflict: an operation runs on the server."""
        server = find(open_records(self.app.client.settings).servers(), wanted)
        if server.operation_uuid is not None and not force:
            why = f"the operation {server.operation_uuid} runs on it: rtagent server resume, or"
            raise ServerConflict(server_uuid=server.uuid, kind="delete", why=f"{why} --force")
        places = (server.place, server.move.source if server.move else None)
        hosts = dict.fromkeys(place.host for place in places if place is not None)
        self.app.LOG.info(
            "server %s (%s) would be deleted; it has claims on: %s",
            *(server.name, server.uuid, ", ".join(hosts) or "no host"),
        )

    def _warn(self, owed: Sequence[ServerOperation]) -> None:
        for each in owed:
            source = progress_of(each.progress).source
            self.app.LOG.warning(
                "%s still has to be cleared, when it answers again: rtagent server resume %s",
                source and source.host,
                each.uuid,
            )


class ServerResume(Action, Working):
    """Continue operations that were interrupted: one, or all that no conductor works on.

    The exit code is that of the first operation that failed or stopped again.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "operation", metavar="OPERATION", nargs="?", help="The uuid of one operation."
        )

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        codes = []
        with self.conductor() as conductor:
            operations = conductor.resume(parsed_args.operation)
            if not operations:
                self.app.LOG.info("no operation is interrupted")
            for operation in operations:
                try:
                    conductor.work(operation)
                except RtAgentError as error:
                    self.app.LOG.error(error)
                    codes.append(exit_code(error))
                else:
                    self.app.LOG.info("%s %s is done", operation.kind, operation.server_uuid)
        return next(iter(codes), Exit.OK)


def _host(operation: ServerOperation) -> Any:
    source = progress_of(operation.progress).source
    return OrEmpty(source and source.host)


def _owed(client: Client) -> list[ServerOperation]:
    found = open_records(client.settings).operations(running=True)
    return [each for each in found if TABLES[each.kind].alone]


_OWED = {
    **columns("operation=uuid", "kind", "server=server_uuid"),
    "host": _host,
    **columns("step", "since=created_at", since=timestamp),
    "reason": lambda owed: OrEmpty(progress_of(owed.progress).reason),
    **columns("error=error.message", error=OrEmpty),
}


class ServerOwedList(List):
    """List what is owed to hosts that did not answer, oldest first. `server resume` ends it."""

    nouns = "owed operations"

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        return rows(_OWED, _owed(self.app.client))


class ServerOwedDrop(Action, Working):
    """Give up what is owed to a host that will never be back.

    If the host comes back nevertheless, the guest and its claim are still there.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("operation", metavar="OPERATION", help="Its uuid: server owed list.")
        parser.add_argument("--reason", metavar="TEXT", required=True, help="Why; it is logged.")
        with_dry_run(parser, "give up")

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


def find(servers: Sequence[Server], wanted: str) -> Server:
    """Return the server with a uuid, or the only one with a name.

    :raises ServerNotFound: InvalidRequest:
    """
    found = [each for each in servers if wanted == each.uuid]
    found = found or [each for each in servers if wanted == each.name]
    if len(found) > 1:
        uuids = ", ".join(each.uuid for each in found)
        raise InvalidRequest.at("server", "SERVER", f"several servers have this name: {uuids}")
    if not found:
        raise ServerNotFound(server_uuid=wanted)
    return found[0]


def with_server(parser: argparse.ArgumentParser) -> None:
    """Add the argument that names a server."""
    parser.add_argument("server", metavar="SERVER", help="The uuid or the name of the server.")
