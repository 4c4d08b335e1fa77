"""rtagent server: operations on a server that exists."""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from typing import ClassVar

from rtagent.cmd import server_request
from rtagent.cmd.server import OperationCommand, find, with_server
from rtagent.conductor.conductor import Conductor
from rtagent.errors import InvalidRequest
from rtagent.model.server import Server


class _OfServer(OperationCommand):
    """An operation on a server that exists."""

    operation: ClassVar[Callable[[Conductor, str], Server | None]]

    def add_arguments(self, parser: ArgumentParser) -> None:
        with_server(parser)

    def operate(self, conductor: Conductor, args: Namespace) -> Server | None:
        return self.change(conductor, find(conductor.servers(), args.server), args)

    def change(self, conductor: Conductor, server: Server, args: Namespace) -> Server | None:
        """Work on the operation."""
        return type(self).operation(conductor, server.uuid)


class _ToHost(_OfServer):
    """An operation that selects a host."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--host",
            metavar="HOST",
            help="Select only this host. The filters run. Default: the best host.",
        )


class ServerResize(_OfServer):
    """Resize a server to another flavor, on another host. The guest is stopped for the move.

    Fields without an option stay. Afterwards the server waits for `server confirm` or `server
    revert`.
    """

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        server_request.add_flavor(parser)

    def change(self, conductor: Conductor, server: Server, args: Namespace) -> Server | None:
        flavor = server_request.new_flavor(args, server.spec.flavor)
        if flavor == server.spec.flavor:
            raise InvalidRequest.at(
                "server resize", "flavor", "give at least one option that changes it"
            )
        return conductor.resize(server.uuid, flavor)


class ServerConfirm(_OfServer):
    """End a resize or migration: release what the server had before."""

    operation = Conductor.confirm


class ServerRevert(_OfServer):
    """Return a resized or migrated server to its former flavor and host."""

    operation = Conductor.revert


class ServerMigrate(_ToHost):
    """Move a server to another host: stopped, or with --live while it runs.

    A stopped one then waits for `server confirm` or `server revert`.
    """

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--live", action="store_true", help="Move it while it runs.")

    def change(self, conductor: Conductor, server: Server, args: Namespace) -> Server | None:
        migrate = conductor.live_migrate if args.live else conductor.cold_migrate
        return migrate(server.uuid, args.host)


class ServerEvacuate(_ToHost):
    """Start a server on another host, because its own has failed.

    What it has on the failed host is removed when that is back: `server resume`.
    """

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--host-is-down",
            action="store_true",
            help="The guest does not run any more, although the agent of its host answers or"
            " libvirt shows that it runs.",
        )

    def change(self, conductor: Conductor, server: Server, args: Namespace) -> Server | None:
        return conductor.evacuate(server.uuid, args.host, host_is_down=args.host_is_down)


class ServerShelve(_OfServer):
    """Shelve a server: stop it, and release all its resources on the host."""

    operation = Conductor.shelve


class ServerUnshelve(_ToHost):
    """Start a shelved server, on any host."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--availability-zone",
            metavar="NAME",
            help="Start it in this availability zone, which is its zone from then on.",
        )

    def change(self, conductor: Conductor, server: Server, args: Namespace) -> Server | None:
        return conductor.unshelve(server.uuid, args.host, availability_zone=args.availability_zone)


class ServerStart(_OfServer):
    """Start a stopped server."""

    operation = Conductor.start


class ServerStop(_OfServer):
    """Stop a server. It keeps its claim."""

    operation = Conductor.stop
