"""Part: a server or a daemon of the world, and its process."""

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from rtagent.api.client import ReadClient
from tests.servers import Libvirtd, MariaDB, Placement, PostgreSQL, RabbitMQ
from tests.servers.daemon import Config, DaemonProcess
from tests.servers.server import Server


class Controls(Protocol):
    """What is done to the process of a part. Thread-safe."""

    @property
    def pid(self) -> int: ...

    def start(self) -> None:
        """Start it, unless it runs. A server answers when this returns, and a daemon starts."""

    def stop(self) -> None:
        """End it cleanly, as a service manager does. It stays down until `start`."""

    def kill(self) -> None:
        """End it as a power failure does."""

    def pause(self) -> None:
        """Suspend it: its connections stay open, and nothing answers."""

    def resume(self) -> None:
        """End a `pause`."""

    def ensure_running(self) -> bool:
        """Start it if it has ended by itself. Return whether it had."""


class Part(Protocol):
    """A part that has a process."""

    @property
    def process(self) -> Controls: ...


class Agent(Part, Protocol):
    """The agent of a host. :ivar name: of the host. :ivar directory: what a run keeps of it."""

    name: str
    directory: Path

    def read(self, *segments: str) -> Any:
        """Return a document of the read API: ``read("nodes")``. :raises RtAgentError:"""

    def events(self, filters: Mapping[str, str]) -> str:
        """Return the text at ``/events``. :raises RtAgentError:"""

    def wait_ready(self, timeout: float) -> Any:
        """Wait until it can grant claims. :param timeout: seconds."""

    def close(self) -> None: ...


class PartProcess:
    """The process of a part: it can be killed, suspended and started again. Thread-safe.

    A process that is to run, but has ended by itself, is started by `ensure_running`, as a service
    manager does.
    """

    def __init__(self, program: DaemonProcess | Server) -> None:
        self._program = program
        self._lock = threading.RLock()
        self._stopped = self._paused = False
        #: Variables of the next starts, in addition to those of this process.
        self.environment: dict[str, str] = {}
        #: Arguments of the next starts. Only daemons have them.
        self.arguments: list[str] = []

    @property
    def pid(self) -> int:
        return self._program.pid

    @property
    def running(self) -> bool:
        return self._program.running

    @property
    def paused(self) -> bool:
        return self._paused

    def start(self) -> None:
        """Start it, unless it runs. A server answers when this returns, and a daemon starts."""
        with self._lock:
            self._stopped = False
            if isinstance(self._program, Server):
                self._program.start()
            elif not self._program.running:
                self._program.start(*self.arguments, **self.environment)

    def stop(self) -> None:
        """End it cleanly, as a service manager does. It stays down until `start`."""
        with self._lock:
            self._stopped = True
            self.resume()
            if isinstance(self._program, Server):
                self._program.stop()
            elif self._program.running:
                self._program.terminate()

    def kill(self) -> None:
        """End it as a power failure does. It stays down until `start`."""
        with self._lock:
            self._stopped, self._paused = True, False
            if self._program.running:
                self._program.kill()

    def pause(self) -> None:
        """Suspend it: its connections stay open, and nothing answers."""
        with self._lock:
            if self._program.running:
                self._program.freeze()
                self._paused = True

    def resume(self) -> None:
        """End a `pause`."""
        with self._lock:
            if self._paused and self._program.running:
                self._program.thaw()
            self._paused = False

    def reload(self) -> None:
        """Send SIGHUP to a daemon."""
        with self._lock:
            if isinstance(self._program, DaemonProcess) and self._program.running:
                self._program.reload()

    def ensure_running(self) -> bool:
        """Start it if it has ended by itself. Return whether it had."""
        with self._lock:
            ended = not self._stopped and not self._program.running
            if ended:
                self.start()
            return ended


class ServerPart:
    """RabbitMQ, a database server, Placement or libvirtd.

    :ivar kind: ``rabbitmq``, ``postgresql``, ``mariadb``, ``placement`` or ``libvirtd``.
    :ivar server: as in `tests.servers`, which has the ways to control it.
    :ivar port: where it listens; 0: libvirtd, which has a socket.
    """

    def __init__(self, server: RabbitMQ | PostgreSQL | MariaDB | Placement | Libvirtd) -> None:
        self.server = server
        self.port = 0 if isinstance(server, Libvirtd) else server.port
        self.kind = server.name
        self.process = PartProcess(server)
        self.directory: Path = server.directory

    def close(self) -> None:
        self.server.close()


class DaemonPart:
    """An rtagentd or an rtagent-scheduler.

    :ivar name: its ``[DEFAULT] host``. :ivar directory: its state, its log and its configuration.
    :ivar config: the options that were set, by group.
    """

    def __init__(self, daemon: DaemonProcess) -> None:
        self.daemon = daemon
        self.name = daemon.host
        self.process = PartProcess(daemon)
        self.directory: Path = daemon.directory

    @property
    def config(self) -> Mapping[str, Mapping[str, object]]:
        return self.daemon.config

    def read(self, *segments: str) -> Any:
        """Return a document of the read API: ``read("nodes")``. :raises RtAgentError:"""
        return self.daemon.read(*segments)

    def events(self, filters: Mapping[str, str]) -> str:
        """Return the text at ``/events`` of an agent. :raises RtAgentError:"""
        return ReadClient(self.daemon.address).text("events", **filters)

    def wait_ready(self, timeout: float) -> None:
        """Wait for READY=1. :raises DaemonFailed:"""
        self.daemon.wait_ready(timeout)

    def configure(self, config: Config) -> None:
        """Change options; the daemon reads them at a reload or a start."""
        self.daemon.configure(config)

    def close(self) -> None:
        self.process.resume()
        self.daemon.close()
