"""The demo's environment: simulated hypervisor, broker, Placement, and the agent's process."""

from __future__ import annotations

import json
import os
import tempfile
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.console import Console

from demo.conductor import Conductor
from demo.screen import PROGRAMS, Screen
from rtagent.virt.simulate import Machine, host_uri, simulate
from rtagent.virt.simulate.documents import MDEV_TYPE
from tests.servers import Placement, RabbitMQ
from tests.servers.daemon import Daemon
from tests.servers.server import free_port

#: Two sockets of eight cores with two threads each. Each socket has a Quadro M4000, at 0000:08:00.0
#: and 0000:88:00.0, and a Tesla T4 with virtual GPUs; the first also has a network card with
#: virtual functions.
MACHINE = Machine(
    sockets=2,
    cores=8,
    threads=2,
    memory_mb=64 * 1024,
    gpus=2,
    shared_gpus=2,
    nics=1,
    vfs=8,
    hostname="hypervisor-1.example",
)
GPU = {"vendor_id": "10de", "product_id": "13f1"}
SPECS = [GPU, {"vendor_id": "8086", "physical_network": "physnet1"}]
ALIAS = {"name": "gpu", **GPU, "device_type": "type-PCI"}


class Environment(Screen):
    """All servers of the demonstration, on loopback, in one temporary directory."""

    _NAME = "hypervisor-1"

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        made = tempfile.TemporaryDirectory(prefix="rtagent-demo-")
        self.directory = Path(self._stack.enter_context(made))
        self.say("Starting a private RabbitMQ and a real OpenStack Placement ...")
        self._rabbitmq = self._stack.enter_context(RabbitMQ())
        self.placement = self._stack.enter_context(Placement())
        self.host_file = self.directory / "host.xml"
        simulate(self.host_file, MACHINE)
        self.provider_files = self.directory / "provider_config"
        self.provider_files.mkdir()
        address = f"127.0.0.1:{free_port()}"
        self.pages[self._NAME] = f"http://{address}/"
        self.daemon = Daemon(
            self.directory / "state",
            self._rabbitmq.transport_url,
            uri=host_uri(self.host_file),
            config={
                "DEFAULT": {"host": self._NAME, "cpu_allocation_ratio": "2.0"},
                "api": {"address": address},
                "pci": {
                    "device_spec": json.dumps(SPECS),
                    "alias": json.dumps(ALIAS),
                    "report_in_placement": "true",
                },
                "devices": {"enabled_mdev_types": MDEV_TYPE},
                "compute": {"provider_config_location": str(self.provider_files)},
                "placement": {
                    "auth_type": "admin_token",
                    "endpoint": self.placement.url,
                    "token": self.placement.token,
                },
            },
        )
        self._stack.callback(self.daemon.close)
        self.start_agent()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def start_agent(self) -> None:
        """Start `rtagentd` and wait until it has audited its host."""
        self.say("Starting rtagentd ...")
        self.daemon.start().wait_ready()

    def conductor(self) -> Conductor:
        """Return a conductor that calls this agent."""
        return Conductor(self.console, self._rabbitmq.transport_url, self.daemon.host)

    def environment(self) -> dict[str, str]:
        """Return the environment variables with which `rtagent` reaches this agent."""
        return {
            "PATH": f"{PROGRAMS}:{os.environ['PATH']}",
            "RTAGENT_CONFIG_FILE": str(self.daemon.config_file),
        }
