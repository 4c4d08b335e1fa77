"""The parts of a lab host: its agent and its libvirtd, which are services of systemd."""

import contextlib
import json
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from retrying import Retrying

from lab import agent
from lab.channel import ChannelError
from lab.host import CommandFailed, Host
from rtagent.api.client import as_error
from rtagent.errors import AgentUnreachable

#: What libvirtd is started by, besides its service.
LIBVIRTD_SOCKETS = (
    "libvirtd-tcp.socket",
    "libvirtd.socket",
    "libvirtd-ro.socket",
    "libvirtd-admin.socket",
)
#: Seconds within which systemd has started a service.
STARTED = 120


class ServiceProcess:
    """The main process of a service. systemd starts it again when it has ended by itself, and when
    the host boots. Thread-safe.
    """

    def __init__(self, host: Host, service: str, sockets: tuple[str, ...] = ()) -> None:
        """:param sockets: units that start the service when a client connects."""
        self._host, self._service, self._sockets = host, service, sockets
        self._lock = threading.RLock()
        self._stopped = self._paused = False

    @property
    def pid(self) -> int:
        return int(
            self._host.output("systemctl", "show", "--value", "--property=MainPID", self._service)
        )

    def start(self) -> None:
        """Start it after a `stop`. Returns at once."""
        with self._lock:
            if self._stopped:
                units = (*self._sockets, self._service)
                self._host.output("systemctl", "start", "--no-block", *units)
                self._stopped = False

    def stop(self) -> None:
        """End it cleanly. It stays down until `start`."""
        with self._lock:
            self.resume()
            self._stopped = True
            self._host.output("systemctl", "stop", *self._sockets, self._service)

    def kill(self) -> None:
        """End it as a power failure does. systemd starts it again."""
        with self._lock:
            self._signal("KILL")
            self._paused = False

    def pause(self) -> None:
        """Suspend it: its connections stay open, and nothing answers."""
        with self._lock:
            self._signal("STOP")
            self._paused = True

    def resume(self) -> None:
        """End a `pause`. systemd may have replaced the process."""
        with self._lock:
            if self._paused:
                self._signal("CONT")
            self._paused = False

    def ensure_running(self) -> bool:
        """Return False: systemd starts what has ended by itself."""
        return False

    def _signal(self, name: str) -> None:
        """Send a signal. After a boot, or a restart, there may be no process for a while.

        :raises RetryError: there is none in time.
        """
        command = ("systemctl", "kill", "--kill-whom=main", f"--signal={name}", self._service)
        retrying = Retrying(
            stop_max_delay=STARTED * 1000,
            wait_fixed=1000,
            retry_on_exception=lambda exc: isinstance(exc, CommandFailed),
        )
        retrying.call(self._host.output, *command)


class LabService:
    """A service of a lab host."""

    def __init__(self, process: ServiceProcess) -> None:
        self.process = process


class LabAgent(LabService):
    """The agent of a lab host, read through the emulated machine.

    :ivar name: of the host. :ivar directory: gets copies of its database, and its journal.
    """

    def __init__(self, host: Host, directory: Path) -> None:
        super().__init__(ServiceProcess(host, "rtagent.service"))
        directory.mkdir(parents=True)
        self.name, self.directory, self._host = host.hostname, directory, host

    def read(self, *segments: str) -> Any:
        """Return a document of the read API. :raises RtAgentError:"""
        path = "/" + "/".join(quote(segment, safe="") for segment in segments)
        document = json.loads(self._get(path))
        if "error" in document:
            raise as_error(document)
        return document

    def events(self, filters: Mapping[str, str]) -> str:
        """Return the text at ``/events``. :raises RtAgentError:"""
        return self._get(f"/events?{urlencode(filters)}")

    def database(self) -> Path:
        """Return a new copy of the database. :raises AgentUnreachable: the host does not answer."""
        copy = self.directory / "rtagent.sqlite"
        try:
            agent.copy_database(self._host, copy)
        except (ChannelError, CommandFailed) as exc:
            raise self._unreachable(exc) from exc
        return copy

    def wait_ready(self, timeout: float) -> None:
        """Wait until the service is started. :raises CommandFailed: it does not start."""
        self._host.wait_served(timeout)

    def close(self) -> None:
        """Keep the journal, if the host answers."""
        with contextlib.suppress(ChannelError, CommandFailed, OSError):
            if self._host.answers():
                journal = self._host.output("journalctl", "--no-pager", "--unit=rtagent")
                (self.directory / "journal").write_text(journal)

    def _get(self, path: str) -> str:
        try:
            return agent.get(self._host, path)
        except (ChannelError, CommandFailed) as exc:
            raise self._unreachable(exc) from exc

    def _unreachable(self, exc: Exception) -> AgentUnreachable:
        return AgentUnreachable(where=self.name, why=str(exc), remedy="see its console")


class LabClock:
    """The time of day of a lab host."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def step(self, seconds: int) -> None:
        """Set it to the time of this machine plus so many seconds; negative: back."""
        self._host.output("date", "--set", f"@{time.time() + seconds:.3f}")
