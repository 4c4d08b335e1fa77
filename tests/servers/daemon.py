"""The daemons as processes of their own: rtagentd, by default on a simulated host, and
rtagent-scheduler."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self

from rtagent.api.address import UnixAddress
from rtagent.api.client import ReadClient
from rtagent.testing.failpoints import VARIABLE
from rtagent.virt.simulate import Machine, host_uri, simulate
from tests.servers.notify import NotifySocket
from tests.servers.process import Process, Runner

Config = Mapping[str, Mapping[str, object]]

ROOT = Path(__file__).resolve().parents[2]

#: What is imported before a process is forked; other modules start with an interpreter.
FORKED = ("rtagent.cmd.rtagentd", "rtagent.cmd.rtagent_scheduler")
#: Variables that take effect at the start of an interpreter only.
OF_A_START = {"LD_PRELOAD", "PYTHONHASHSEED", "PYTHONPATH"}

#: Seconds; nothing takes as long, not even on a machine with other work.
PATIENCE = 120.0


class DaemonFailed(Exception):
    """The daemon did not do what was expected; the message ends with the last lines of its log."""


def wait_until(holds: Callable[[], bool], timeout: float = PATIENCE, pause: float = 0.05) -> None:
    """Wait until the condition holds. :raises TimeoutError: it does not in `timeout` seconds.

    :param pause: seconds between the first two looks. Each costs CPU time, so later ones are rarer.
    """
    deadline = time.monotonic() + timeout
    longest = max(pause, 0.4)
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"the condition did not hold within {timeout} s")
        time.sleep(pause)
        pause = min(1.2 * pause, longest)


class DaemonProcess(Runner):
    """A daemon whose configuration, state and log are in `directory`.

    It can be started again after it has ended, however it ended: the directory is kept.

    :ivar forked: whether a start is a `ForkedProgram`, which has less memory and time of its own
        than a program that the system starts.
    """

    def __init__(
        self,
        module: str,
        directory: Path,
        socket_name: str,
        defaults: Config,
        config: Config | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """:param module: what is run. :param socket_name: the file of its read API.
        :param defaults: options by group; `config` overrides them.
        :param environment: additional to that of this process.
        """
        directory.mkdir(parents=True, exist_ok=True)
        self._module, self.directory = module, directory
        self.forked = module in FORKED
        self.log = directory / f"{module.rpartition('.')[2]}.log"
        self.config_file = directory / "rtagent.conf"
        self.address = UnixAddress(str(directory / socket_name))
        self.notify = NotifySocket()
        self._environment = {**(environment or {}), "NOTIFY_SOCKET": self.notify.address}
        self._config: dict[str, dict[str, object]] = {}
        self.configure(defaults)
        self.configure(config or {})

    # -- configuration -----------------------------------------------------------------------------

    def configure(self, config: Config) -> None:
        """Override these options; a running daemon reads them at `reload`."""
        for group, options in config.items():
            self._config.setdefault(group, {}).update(options)
        self.config_file.write_text(
            "".join(
                f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in options.items())
                for group, options in self._config.items()
            )
        )

    @property
    def config(self) -> Config:
        """The options by group."""
        return self._config

    @property
    def host(self) -> str:
        """``[DEFAULT] host``: the name of the RPC server."""
        return str(self._config["DEFAULT"]["host"])

    # -- start and stop ----------------------------------------------------------------------------

    def start(self, *arguments: str, **environment: str) -> Self:
        """Start the process, with these additional arguments and variables. Returns at once.

        :raises DaemonFailed: it runs already.
        """
        if self.running:
            raise DaemonFailed(f"runs already, as process {self.pid}")
        self.notify.clear()
        module = "tests.servers.failing_rtagentd" if VARIABLE in environment else self._module
        variables = {**self._environment, **environment}
        forked = self.forked and variables.keys().isdisjoint(OF_A_START)
        command = [module] if forked else [sys.executable, "-m", module]
        self._process = Process(
            [*command, "--config-file", str(self.config_file), *arguments],
            {"PYTHONPATH": str(ROOT), **variables},
            self.directory,
            self.log,
            signal.SIGTERM,
            forked=forked,
        )
        return self

    def wait_ready(self, timeout: float = PATIENCE) -> Self:
        """Wait for READY=1."""
        self.wait_notified("READY=1", timeout)
        return self

    def wait_notified(self, part: str, timeout: float = PATIENCE) -> str:
        """Wait for the next line of sd_notify that contains `part`, and return it.

        :raises DaemonFailed: there was none in time, or the process has ended.
        """
        line = self.notify.wait(lambda line: part in line, timeout, lambda: self.running)
        if line is None:
            ended = f"ended with {self.exit_code}" if not self.running else "runs"
            raise DaemonFailed(f"did not send {part!r} and {ended}: {self.last_lines()}")
        return line

    def wait_logged(self, part: str, timeout: float = PATIENCE) -> str:
        """Wait for a line of the log that contains `part`, and return the first one.

        :raises DaemonFailed: there was none in time.
        """
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            for line in self.log.read_text(errors="replace").splitlines():
                if part in line:
                    return line
            time.sleep(0.05)
        raise DaemonFailed(f"did not log {part!r}: {self.last_lines()}")

    def count_logged(self, part: str) -> int:
        """Return how many lines of the log contain `part`."""
        lines = self.log.read_text(errors="replace").splitlines()
        return sum(part in line for line in lines)

    @property
    def exit_code(self) -> int | None:
        """The exit code; minus the signal that ended it; None while it runs."""
        return self._process.exit_code if self._process is not None else None

    def wait(self, timeout: float = PATIENCE) -> int:
        """Wait until it ends by itself, and return its exit code.

        :raises DaemonFailed: it does not end in time.
        """
        assert self._process is not None
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired as exc:
            raise DaemonFailed(f"did not end in {timeout} s: {self.last_lines()}") from exc

    def reload(self) -> None:
        """Send SIGHUP."""
        self.signal(signal.SIGHUP)

    def terminate(self, timeout: float = PATIENCE) -> int:
        """Send SIGTERM, wait for the end, and return the exit code."""
        self.signal(signal.SIGTERM)
        return self.wait(timeout)

    def signal(self, number: int) -> None:
        """Send this signal."""
        assert self._process is not None
        self._process.send(number)

    def close(self) -> None:
        """Kill it if it runs; its directory is kept. `terminate` shows how it stops."""
        if self._process is not None:
            self._process.kill()
        self.notify.close()

    # -- what it shows -----------------------------------------------------------------------------

    def read(self, *segments: str, **filters: str) -> dict:
        """Return a document of the read API: ``read("nodes")``."""
        return ReadClient(self.address, PATIENCE / 2).get(*segments, **filters)

    def metrics(self) -> dict[str, float]:
        """Return the metrics of the read API, by name and labels."""
        lines = self._metric_lines()
        pairs = (line.rpartition(" ") for line in lines if not line.startswith("#"))
        return {name: float(value) for name, _, value in pairs}

    def metric_names(self) -> set[str]:
        """Return the names of the metrics of the read API, also of those without a value yet."""
        return {line.split()[2] for line in self._metric_lines() if line.startswith("# TYPE ")}

    def _metric_lines(self) -> list[str]:
        _, body = ReadClient(self.address, PATIENCE).request("/metrics")
        return body.decode().splitlines()

    def last_lines(self, number: int = 20) -> str:
        """Return the last lines of the log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-number:])

    def __enter__(self) -> Self:
        """Start it, if it was not started yet: ``with Daemon(...).start(**variables)``."""
        return self if self.running else self.start()

    def __exit__(self, *_: object) -> None:
        self.close()


class Daemon(DaemonProcess):
    """An `rtagentd`.

        with Daemon(tmp_path, rabbitmq.transport_url) as daemon:
            daemon.wait_ready()

    READY=1 follows the first good audit: claims are granted.
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
        """:param database_url: by default embedded SQLite.
        :param uri: the hypervisor; by default a host simulated in ``directory/host.xml``.
        :param config: further options by group; they override those that are made here.
        :param environment: additional to that of this process.
        """
        self.host_file = directory / "host.xml"
        self.storage = directory / "instances"
        self.storage.mkdir(parents=True, exist_ok=True)
        if uri is None:
            uri = host_uri(self.host_file)
            if not self.host_file.exists():
                simulate(self.host_file, Machine())
        defaults: dict[str, dict[str, object]] = {
            "DEFAULT": {
                "host": "agent1",
                "my_ip": "127.0.0.1",
                "state_path": directory,
                "lock_path": directory,
                "instances_path": self.storage,
                "transport_url": transport_url,
            },
            "libvirt": {"connection_uri": uri},
        }
        if database_url is not None:
            defaults["database"] = {"connection": database_url}
        super().__init__(
            "rtagent.cmd.rtagentd", directory, "rtagent.sock", defaults, config, environment
        )


class SchedulerServer(DaemonProcess):
    """An `rtagent-scheduler`, by default with an embedded database and without Placement.

        with SchedulerServer(tmp_path, rabbitmq.transport_url) as scheduler:
            scheduler.wait_ready()

    READY=1 means that it knows all hosts, or has waited for ``[scheduler] start_grace``.
    """

    def __init__(
        self,
        directory: Path,
        transport_url: str,
        *,
        database_url: str | None = None,
        config: Config | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """:param database_url: of a server that the agents share; None: none.
        :param config: further options by group. :param environment: additional.
        """
        defaults: dict[str, dict[str, object]] = {
            "DEFAULT": {
                "host": "scheduler1",
                "my_ip": "127.0.0.1",
                "state_path": directory,
                "transport_url": transport_url,
            },
            "scheduler": {"report_jitter": 0.1},
        }
        if database_url is not None:
            defaults["database"] = {"connection": database_url}
        super().__init__(
            "rtagent.cmd.rtagent_scheduler",
            directory,
            "scheduler.sock",
            defaults,
            config,
            environment,
        )
