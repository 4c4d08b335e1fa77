"""What a small cloud has beside its hosts, as processes: Nova's conductor and scheduler, Placement
and Neutron."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from rtagent.model.base import Value
from tests.nova.compute_host import PATIENCE, PAUSE, PROGRAMS, Program
from tests.servers import MariaDB, Neutron, Placement, RabbitMQ
from tests.servers.daemon import wait_until

ROOT = Path(__file__).resolve().parents[2]
#: The image of every server. The hosts' cache has it, so that no image service is needed.
IMAGE = "6a0f6d1c-2f0f-4f0e-9d1c-0d7e35a4a001"
#: Where a service would be that this cloud does not have.
ABSENT = "http://127.0.0.1:1"

_SERVICES = """
[DEFAULT]
transport_url = {transport_url}
my_ip = 127.0.0.1
compute_driver = libvirt.LibvirtDriver
instances_path = {directory}/instances
report_interval = 2
service_down_time = 900
initial_disk_allocation_ratio = 1.0
reserved_host_memory_mb = 0
update_resources_interval = 5
allow_resize_to_same_host = true
[oslo_concurrency]
lock_path = {directory}/locks
[placement]
auth_type = admin_token
endpoint = {placement}
endpoint_override = {placement}
token = admin
[glance]
endpoint_override = {absent}
[neutron]
auth_type = admin_token
endpoint = {neutron}
endpoint_override = {neutron}
token = admin
[libvirt]
virt_type = qemu
cpu_mode = none
[vnc]
enabled = false
[filter_scheduler]
enabled_filters = ComputeFilter,NUMATopologyFilter
[scheduler]
workers = 1
[conductor]
workers = 1
"""

_CONTROLLER = """
[DEFAULT]
host = controller
state_path = {directory}/controller
[api_database]
connection = {api}
[database]
connection = {cell}
"""


class Endpoints(Value, frozen=True, kw_only=True):
    """The URLs at which a program of Nova's reaches the broker, Placement and Neutron."""

    transport_url: str
    placement: str
    neutron: str

    def options(self, directory: str) -> str:
        """Return the options that all programs of Nova's have, as the start of a configuration.

        :param directory: for the instances and the locks of the program.
        """
        return _SERVICES.format(
            directory=directory,
            transport_url=self.transport_url,
            placement=self.placement,
            neutron=self.neutron,
            absent=ABSENT,
        )


class ControlPlane:
    """:ivar endpoints: as they are on this machine."""

    def __init__(
        self, directory: Path, rabbitmq: RabbitMQ, mariadb: MariaDB, more: str = ""
    ) -> None:
        """:param more: options, in addition to those of `Endpoints`."""
        self.placement = Placement()
        self.placement.use(mariadb.create_database())
        self.neutron = Neutron(mariadb.create_database())
        self.endpoints = Endpoints(
            transport_url=rabbitmq.transport_url,
            placement=self.placement.url,
            neutron=self.neutron.url,
        )
        for name in ("locks", "controller"):
            (directory / name).mkdir()
        api, self._cell0, cell = (mariadb.create_database() for _ in range(3))
        self._directory, self._config = directory, directory / "nova.conf"
        own = _CONTROLLER.format(directory=directory, api=api, cell=cell)
        self._config.write_text(self.endpoints.options(str(directory)) + more + own)
        self._programs = [
            Program(name, self._config) for name in ("nova-conductor", "nova-scheduler")
        ]
        self._caller: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Create the databases, and start everything."""
        self._caller = self._start_caller()
        with ThreadPoolExecutor() as pool:
            parts = [pool.submit(each.start) for each in (self.placement, self.neutron)]
            self.call("create_cells", self._cell0)
            for started in parts:
                started.result()
        for program in self._programs:
            program.start()

    def discover(self, hosts: int) -> None:
        """Wait until so many hosts have a CPU for a pinned server, and let the cell have them."""
        wait_until(lambda: self._offered() == hosts, PATIENCE, PAUSE)
        self.call("discover_hosts")

    def _offered(self) -> int:
        query = "/allocation_candidates?resources=PCPU:1,MEMORY_MB:1"
        return len(self.placement.client().get(query).json()["provider_summaries"])

    def close(self) -> None:
        """Stop everything."""
        if self._caller is not None:
            self._caller.communicate()
        for server in (*self._programs, self.neutron, self.placement):
            server.close()

    def delete_allocations(self) -> None:
        """Delete what Nova leaves in Placement of a migration that has never ended."""
        client = self.placement.client()
        for provider in client.get("/resource_providers").json()["resource_providers"]:
            held = client.get(f"/resource_providers/{provider['uuid']}/allocations").json()
            for consumer in held["allocations"]:
                client.delete(f"/allocations/{consumer}")

    def call(self, *command: Any) -> Any:
        """Do what nova-api does, or read Nova's database, see `tests.nova.caller`."""
        assert self._caller is not None
        assert self._caller.stdin is not None and self._caller.stdout is not None
        self._caller.stdin.write(json.dumps(command) + "\n")
        self._caller.stdin.flush()
        done = json.loads(self._caller.stdout.readline())
        assert "error" not in done, f"{command}: {done}"
        return done["answer"]

    def _start_caller(self) -> subprocess.Popen[str]:
        command = [str(PROGRAMS / "python"), "-m", "tests.nova.caller", str(self._config)]
        with (self._directory / "caller.log").open("w") as log:
            return subprocess.Popen(
                command,
                env={**os.environ, "PYTHONWARNINGS": "ignore"},
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )


def cached(image: str) -> str:
    """Return the name of an image's file in the directory ``_base`` of a host's instances."""
    return hashlib.sha1(image.encode(), usedforsecurity=False).hexdigest()
