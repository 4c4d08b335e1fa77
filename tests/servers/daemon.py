"""The daemon as its own process, on a host that is simulated unless told otherwise."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from rtagent.api.address import UnixAddress
from rtagent.api.client import ReadClient
from rtagent.virt.simulate import Machine, host_uri, simulate
from tests.servers.notify import NotifySocket
from tests.servers.process import Process

Config = Mapping[str, Mapping[str, object]]

ROOT = Path(__file__).resolve().parents[2]


class DaemonFailed(Exception):
    """The daemon is not as it should be; the message ends with the last lines of its log."""


def wait_until(holds: Callable[[], bool], timeout: float = 30.0) -> None:
    """Until the condition holds; raises `TimeoutError`."""
    deadline = time.monotonic() + timeout
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError("what was waited for did not come to be")
        time.sleep(0.05)


class Daemon:
    """A private `rtagentd`: its configuration, state and log are in `directory`.

        with Daemon(tmp_path, rabbitmq.transport_url) as daemon:
            daemon.wait_ready()

    It may be started again after it has ended, however it ended: the directory stays as it is.
    """

    def __init__(
        self,
        directory: Path,
        transport_url: str,
        *,
        database_url: str | None = None,
        uri: str | None = None,
        config: Config | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """:param database_url: embedded SQLite when left out. :param uri: the hypervisor; a host
        simulated in ``directory/host.xml`` when left out.
        :param config: more options, by group; they win over those that are made here.
        :param environment: beside this process's."""
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.log = directory / "rtagentd.log"
        self.config_file = directory / "rtagent.conf"
        self.host_file = directory / "host.xml"
        self.storage = directory / "instances"
        self.storage.mkdir(exist_ok=True)
        self.address = UnixAddress(str(directory / "rtagent.sock"))
        self.notify = NotifySocket()
        self._environment = {**(environment or {}), "NOTIFY_SOCKET": self.notify.address}
        self._process: Process | None = None
        if uri is None:
            uri = host_uri(self.host_file)
            if not self.host_file.exists():
                simulate(self.host_file, Machine())
        self._config = self._defaults(transport_url, database_url, uri)
        self.configure(config or {})

    # -- its configuration ------------------------------------------------------------------------

    def configure(self, config: Config) -> None:
        """Write these options over those of before; a running daemon reads them at `reload`."""
        for group, options in config.items():
            self._config.setdefault(group, {}).update(options)
        self.config_file.write_text(
            "".join(
                f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in options.items())
                for group, options in self._config.items()
            )
        )

    @property
    def host(self) -> str:
        """``[DEFAULT] host``: the server's name on the message bus."""
        return str(self._config["DEFAULT"]["host"])

    def _defaults(
        self, transport_url: str, database_url: str | None, uri: str
    ) -> dict[str, dict[str, object]]:
        options: dict[str, dict[str, object]] = {
            "DEFAULT": {
                "host": "agent1",
                "my_ip": "127.0.0.1",
                "state_path": self.directory,
                "lock_path": self.directory,
                "instances_path": self.storage,
                "transport_url": transport_url,
            },
            "libvirt": {"connection_uri": uri},
        }
        if database_url is not None:
            options["database"] = {"connection": database_url}
        return options

    # -- its life ---------------------------------------------------------------------------------

    def start(self, *arguments: str, **environment: str) -> Self:
        """Start the process, with these on its command line and in its environment too; returns at
        once."""
        self.notify.clear()
        command = [sys.executable, "-m", "rtagent.cmd.rtagentd"]
        self._process = Process(
            [*command, "--config-file", str(self.config_file), *arguments],
            {"PYTHONPATH": str(ROOT), **self._environment, **environment},
            self.directory,
            self.log,
            signal.SIGTERM,
        )
        return self

    def wait_ready(self, timeout: float = 60.0) -> Self:
        """Until it has said READY=1: the first good audit is done, claims are granted."""
        self.wait_said("READY=1", timeout)
        return self

    def wait_said(self, part: str, timeout: float = 30.0) -> str:
        """The next line of sd_notify with that part in it.

        :raises DaemonFailed: there was none in time, or the process has ended.
        """
        line = self.notify.wait(lambda line: part in line, timeout, lambda: self.running)
        if line is None:
            ended = f"ended with {self.exit_code}" if not self.running else "runs"
            raise DaemonFailed(f"never said {part!r} and {ended}: {self.last_lines()}")
        return line

    def wait_logged(self, part: str, timeout: float = 30.0) -> str:
        """The first line of its log with that part in it.

        :raises DaemonFailed: there was none in time.
        """
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            for line in self.log.read_text(errors="replace").splitlines():
                if part in line:
                    return line
            time.sleep(0.05)
        raise DaemonFailed(f"never logged {part!r}: {self.last_lines()}")

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.running

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """Minus the signal that ended it; None while it runs."""
        return self._process.exit_code if self._process is not None else None

    def wait(self, timeout: float = 60.0) -> int:
        """Its exit code, once it has ended by itself.

        :raises DaemonFailed: it runs still.
        """
        assert self._process is not None
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired as exc:
            raise DaemonFailed(f"did not end in {timeout} s: {self.last_lines()}") from exc

    def reload(self) -> None:
        """SIGHUP."""
        self._signal(signal.SIGHUP)

    def terminate(self, timeout: float = 60.0) -> int:
        """SIGTERM, and its exit code."""
        self._signal(signal.SIGTERM)
        return self.wait(timeout)

    def kill(self) -> None:
        """SIGKILL: what a power cut does."""
        assert self._process is not None
        self._process.kill()

    def freeze(self) -> None:
        """SIGSTOP: it hangs, its connections stay open."""
        assert self._process is not None
        self._process.freeze()

    def thaw(self) -> None:
        """The end of a `freeze()`."""
        assert self._process is not None
        self._process.thaw()

    def close(self) -> None:
        """End it if it runs; its directory stays."""
        if self._process is not None:
            self._process.stop(30.0)
        self.notify.close()

    # -- what it tells ----------------------------------------------------------------------------

    def read(self, *segments: str, **filters: str) -> dict:
        """A document of the read API, such as ``read("nodes")``."""
        return ReadClient(self.address).get(*segments, **filters)

    def last_lines(self, number: int = 20) -> str:
        """The end of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-number:])

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send(number)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
