"""Lab hosts under a scheduler and a conductor, which run on this machine."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from rtagent.conf.scheduler import DEFAULT_FILTERS
from tests.lab.rack import CALL, PATIENCE, Served, wait_until
from tests.servers import RabbitMQ
from tests.servers.daemon import SchedulerServer

#: An emulated host may be silent for long, in seconds.
DOWN = 120
#: The default filters, and those that fit.
FILTERS = ",".join((*DEFAULT_FILTERS, "NUMATopologyFilter", "PciPassthroughFilter"))
PROGRAM = Path(sys.executable).parent / "rtagent"


class Commands:
    """The commands of the conductor and of the scheduler."""

    def __init__(self, scheduler: SchedulerServer) -> None:
        self._environment = {**os.environ, "RTAGENT_CONFIG_FILE": str(scheduler.config_file)}

    def run(self, *arguments: str) -> Any:
        """Run a command of `rtagent`, and return what it prints as JSON."""
        done = subprocess.run(
            [str(PROGRAM), "--timeout", str(CALL), *arguments, "-f", "json"],
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=20 * CALL,
            check=False,
        )
        assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
        return json.loads(done.stdout)

    def act(self, *arguments: str) -> None:
        """Run a command that prints nothing."""
        subprocess.run(
            [str(PROGRAM), "--timeout", str(CALL), *arguments],
            env=self._environment,
            check=True,
            timeout=20 * CALL,
        )

    def state(self, host: Served) -> str:
        """Return the state of a host as the scheduler sees it; "": it is not known."""
        found = [
            each["state"] for each in self.run("host", "list") if each["host"] == host.hostname
        ]
        return str(found[0]) if found else ""


@contextmanager
def cloud(hosts: Sequence[Served], rabbitmq: RabbitMQ) -> Iterator[Commands]:
    """Start a scheduler, and let the conductor reach the hypervisors of these hosts."""
    with ExitStack() as stack:
        # The paths of the sockets must be short.
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cloud-")))
        for host in hosts:
            host.open_libvirt()
            stack.enter_context(_relay(directory / f"{host.hostname}.sock", host.libvirt_port))
            host.output("sync")  # the power may be cut
        scheduler = SchedulerServer(
            directory / "cloud",
            rabbitmq.transport_url,
            config={
                "DEFAULT": {"service_down_time": DOWN},
                "filter_scheduler": {"enabled_filters": FILTERS},
                "conductor": {
                    "host_uri": f"qemu+unix:///system?socket={directory}/{{host}}.sock",
                    "host_timeout": CALL,
                    "shutdown_timeout": 0,
                },
            },
        )
        stack.callback(scheduler.close)
        scheduler.start().wait_ready(PATIENCE)
        commands = Commands(scheduler)
        wait_until(lambda: all(commands.state(host) == "up" for host in hosts))
        yield commands


@contextmanager
def _relay(path: Path, port: int) -> Iterator[None]:
    """Relay a unix socket, which has the host's name, to the port of its libvirt."""
    command = ["socat", f"UNIX-LISTEN:{path},fork", f"TCP:127.0.0.1:{port}"]
    with subprocess.Popen(command) as relay:
        try:
            yield
        finally:
            relay.terminate()
