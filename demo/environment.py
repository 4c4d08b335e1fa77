"""The demo's environment: simulated hypervisor, broker, Placement, and the agent's process."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rich.console import Console, RenderableType
from rich.rule import Rule

from demo.conductor import Conductor
from rtagent.virt.simulate import Machine, host_uri, simulate
from rtagent.virt.simulate.devices import MDEV_TYPE
from tests.servers import Placement, RabbitMQ
from tests.servers.daemon import Daemon

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
PROGRAMS = Path(sys.executable).parent


class UnexpectedExit(Exception):
    """A command exited with another code than the demonstration expects."""


class Environment:
    """All servers of the demonstration, on loopback, in one temporary directory."""

    def __init__(self, console: Console) -> None:
        self.console = console
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
        self.daemon = Daemon(
            self.directory / "state",
            self._rabbitmq.transport_url,
            uri=host_uri(self.host_file),
            config={
                "DEFAULT": {"host": "hypervisor-1", "cpu_allocation_ratio": "2.0"},
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

    # -- output ---------------------------------------------------------------------------------

    def chapter(self, title: str) -> None:
        self.console.print()
        self.console.print(Rule(title, align="left"))

    def say(self, sentence: str) -> None:
        self.console.print(sentence, style="italic", highlight=False)

    def run(
        self,
        command: str,
        expect: int = 0,
        shown: Callable[[str], RenderableType] | None = None,
    ) -> str:
        """Run `rtagent COMMAND`, print its output, and return it.

        :param shown: converts the output for printing; None: print it as it is.
        :raises UnexpectedExit: the exit code is not `expect`.
        """
        self.console.print(f"$ rtagent {command}", style="bold", highlight=False, soft_wrap=True)
        done = self._call(shlex.split(command))
        if shown is not None and done.returncode == expect:
            self.console.print(shown(done.stdout))
        else:
            for line in (done.stdout + done.stderr).splitlines():
                self.console.print(line, markup=False, highlight=False, soft_wrap=True)
        if done.returncode != expect:
            raise UnexpectedExit(f"rtagent {command} exited with {done.returncode}, not {expect}")
        return done.stdout

    def ask(self, command: str) -> Any:
        """Return the answer of a read command without printing it."""
        return json.loads(self._call([*shlex.split(command), "-f", "json"]).stdout)

    def conductor(self) -> Conductor:
        """Return a conductor that calls this agent."""
        return Conductor(self.console, self._rabbitmq.transport_url, self.daemon.host)

    def environment(self) -> dict[str, str]:
        """Return the environment variables with which `rtagent` reaches this agent."""
        return {
            "PATH": f"{PROGRAMS}:{os.environ['PATH']}",
            "RTAGENT_CONFIG_FILE": str(self.daemon.config_file),
        }

    def _call(self, arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(PROGRAMS / "rtagent"), *arguments],
            env={**os.environ, **self.environment(), "COLUMNS": "110"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
