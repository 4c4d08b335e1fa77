"""The cloud of the second demonstration: three simulated hosts, a scheduler, and their servers."""

from __future__ import annotations

import json
import os
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from msgspec.structs import replace
from rich.console import Console

from demo.screen import PROGRAMS, Screen
from rtagent.virt.simulate import Machine, host_uri, simulate
from tests.servers import Placement, RabbitMQ
from tests.servers.daemon import Daemon, SchedulerServer
from tests.servers.server import free_port

HOSTS = ("host-1", "host-2", "host-3")
#: Two sockets of four cores with two threads each, and on the first one a network card with
#: virtual functions. CPUs 0 and 4 and their siblings are shared, the others are dedicated.
MACHINE = Machine(sockets=2, cores=4, threads=2, memory_mb=32 * 1024, nics=1, vfs=4)
CPUS = {"cpu_shared_set": "0,4,8,12", "cpu_dedicated_set": "1-3,5-7,9-11,13-15"}
VF = {"vendor_id": "8086", "product_id": "154c"}
#: So that a host that is switched off is down soon, in seconds.
TIMES = {"report_interval": 1, "service_down_time": 20}
ALIAS = {"name": "vf", **VF, "device_type": "type-VF"}


class Cloud(Screen):
    """All servers of the demonstration, on loopback, in one temporary directory.

    A host that is switched off has no host file, so that nothing reaches its guests.
    """

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        try:
            return self._start()
        except BaseException:
            self._stack.close()
            raise

    def _start(self) -> Self:
        made = tempfile.TemporaryDirectory(prefix="rtagent-demo-")
        self.directory = Path(self._stack.enter_context(made))
        self.say("Starting a private RabbitMQ and a real OpenStack Placement ...")
        self._rabbitmq = self._stack.enter_context(RabbitMQ())
        self.placement = self._stack.enter_context(Placement())
        self._agents = {name: self._agent(name) for name in HOSTS}
        self._scheduler = self._stack.enter_context(self._make_scheduler())
        self.say(f"Starting an rtagentd for each of {', '.join(HOSTS)}, and rtagent-scheduler ...")
        with ThreadPoolExecutor(len(HOSTS)) as threads:
            list(threads.map(self.start_agent, HOSTS))
        self._scheduler.wait_ready()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    # -- hosts ------------------------------------------------------------------------------------

    def host_file(self, name: str) -> Path:
        """Return the file of a host."""
        return self.directory / f"{name}.xml"

    def start_agent(self, name: str) -> None:
        """Start the agent of a host and wait until it grants claims."""
        self._agents[name].start().wait_ready()

    def switch_off(self, name: str) -> None:
        """Kill the agent of a host and take its hypervisor away."""
        self._agents[name].kill()
        self.host_file(name).rename(self.directory / f"{name}.off")

    def switch_on(self, name: str) -> None:
        """Bring the host back, as it was when it was switched off."""
        (self.directory / f"{name}.off").rename(self.host_file(name))
        self.start_agent(name)

    def run_at(self, host: str, command: str) -> str:
        """Run a command of `rtagent` on a host, and print it with its output."""
        return self._run(command, {"RTAGENT_CONFIG_FILE": self.config_of(host)})

    def config_of(self, host: str) -> str:
        """Return the configuration file of a host's agent."""
        return str(self._agents[host].config_file)

    # -- configuration ----------------------------------------------------------------------------

    def environment(self) -> dict[str, str]:
        """Return the environment variables with which `rtagent` reaches this cloud."""
        return {
            "PATH": f"{PROGRAMS}:{os.environ['PATH']}",
            "RTAGENT_CONFIG_FILE": str(self._scheduler.config_file),
        }

    def _agent(self, name: str) -> Daemon:
        address = f"127.0.0.1:{free_port()}"
        self.pages[name] = f"http://{address}/"
        simulate(self.host_file(name), replace(MACHINE, hostname=f"{name}.example"))
        daemon = Daemon(
            self.directory / name,
            self._rabbitmq.transport_url,
            uri=host_uri(self.host_file(name)),
            config={
                "DEFAULT": {"host": name, "cpu_allocation_ratio": "4.0", **TIMES},
                "api": {"address": address, "page_url": self.pages[name]},
                "compute": CPUS,
                "pci": {"device_spec": json.dumps(VF), "alias": json.dumps(ALIAS)},
                "placement": self._placement(),
            },
        )
        self._stack.callback(daemon.close)
        return daemon

    def _make_scheduler(self) -> SchedulerServer:
        """Make the scheduler. Its configuration file is also that of the conductor's commands."""
        address = f"127.0.0.1:{free_port()}"
        self.pages["rtagent-scheduler"] = f"http://{address}/"
        return SchedulerServer(
            self.directory / "cloud",
            self._rabbitmq.transport_url,
            config={
                "DEFAULT": TIMES,
                "scheduler": {"api_address": address},
                "pci": {"alias": json.dumps(ALIAS)},
                "placement": self._placement(),
                "conductor": {
                    "host_uri": f"test://{self.directory}/{{host}}.xml",
                    "host_timeout": 10,
                },
            },
        )

    def _placement(self) -> dict[str, object]:
        return {
            "auth_type": "admin_token",
            "endpoint": self.placement.url,
            "token": self.placement.token,
        }
