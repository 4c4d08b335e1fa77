"""A small cloud of Nova's: conductor, scheduler and one rtagent-nova-compute, as processes."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rtagent.api.address import parse
from rtagent.api.client import ReadClient
from rtagent.errors import AgentUnreachable
from tests.servers import Libvirtd, MariaDB, Placement, RabbitMQ, Server
from tests.servers.daemon import wait_until

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / ".venv-nova/bin"
CALLER = Path(__file__).parent / "caller.py"
HOST = "compute1"
#: The image of every server. Nova's cache has it, so that no image service is needed.
IMAGE = "6a0f6d1c-2f0f-4f0e-9d1c-0d7e35a4a001"
#: Where services would be that this cloud does not have.
ABSENT = "http://127.0.0.1:1"
#: Seconds that a program of Nova's may take to start, and a command.
PATIENCE = 300.0

_SERVICES = """
[DEFAULT]
transport_url = {transport_url}
host = {host}
my_ip = 127.0.0.1
compute_driver = libvirt.LibvirtDriver
state_path = {directory}/state
instances_path = {directory}/instances
report_interval = 2
service_down_time = 900
initial_disk_allocation_ratio = 1.0
update_resources_interval = 5
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
endpoint = {absent}
endpoint_override = {absent}
token = admin
[libvirt]
virt_type = qemu
connection_uri = {libvirt}
cpu_mode = none
[vnc]
enabled = false
[compute]
cpu_shared_set = 0
cpu_dedicated_set = 1
[filter_scheduler]
enabled_filters = ComputeFilter,NUMATopologyFilter
[nova_sys_admin]
helper_command = {helper}
[privsep_osbrick]
helper_command = {helper}
[scheduler]
workers = 1
discover_hosts_in_cells_interval = 2
[conductor]
workers = 1
"""

_DATABASES = """
[api_database]
connection = {api}
[database]
connection = {cell}
"""


class Program(Server):
    """A program of Nova's."""

    name = "nova"

    def __init__(self, program: str, config: Path) -> None:
        super().__init__()
        self._program, self._config = program, config

    def prepare(self) -> None:
        """Do nothing: the configuration has been written."""

    def command(self) -> Sequence[str]:
        return [str(PROGRAMS / self._program), "--config-file", str(self._config)]

    def environment(self) -> Mapping[str, str]:
        return {"PYTHONWARNINGS": "ignore"}

    def answers(self) -> bool:
        return True


class Cloud:
    """:ivar compute: runs when the cloud has started. :ivar api: the read API of its node."""

    def __init__(
        self,
        directory: Path,
        rabbitmq: RabbitMQ,
        mariadb: MariaDB,
        placement: Placement,
        libvirtd: Libvirtd,
    ) -> None:
        for name in ("state", "locks", "instances/_base"):
            (directory / name).mkdir(parents=True)
        cached = hashlib.sha1(IMAGE.encode(), usedforsecurity=False).hexdigest()
        (directory / "instances/_base" / cached).write_bytes(bytes(2**20))
        self._without, self._config = directory / "compute.conf", directory / "nova.conf"
        services = _SERVICES.format(
            helper=f"{PROGRAMS}/privsep-helper --config-file {self._without}",
            transport_url=rabbitmq.transport_url,
            host=HOST,
            directory=directory,
            placement=placement.url,
            libvirt=libvirtd.uri,
            absent=ABSENT,
        )
        api, self._cell0, cell = (mariadb.create_database() for _ in range(3))
        self._without.write_text(services)
        self._config.write_text(services + _DATABASES.format(api=api, cell=cell))
        self._others = [
            Program(name, self._config) for name in ("nova-conductor", "nova-scheduler")
        ]
        self.compute = Program("rtagent-nova-compute", self._without)
        self._placement = placement.client()
        self.socket = directory / "state/rtagent/rtagent.sock"
        self.api = ReadClient(parse(str(self.socket)))

    def start(self) -> None:
        """Create the databases, and start everything."""
        self._manage("api_db", "sync")
        self._manage("cell_v2", "map_cell0", "--database_connection", self._cell0)
        self._manage("db", "sync")
        self._manage("cell_v2", "create_cell", "--name", "cell1")
        for program in self._others:
            program.start()
        self.compute.start()
        self.wait_observed()
        wait_until(self._is_offered, PATIENCE)
        self._manage("cell_v2", "discover_hosts")

    def close(self) -> None:
        """Stop everything."""
        for program in (self.compute, *self._others):
            program.close()

    def wait_observed(self) -> None:
        """Wait until the node is served, and its domains were compared with its claims."""
        wait_until(self._is_observed, PATIENCE)

    def _is_offered(self) -> bool:
        found = self._placement.get("/allocation_candidates?resources=PCPU:1,MEMORY_MB:1").json()
        return bool(found["provider_summaries"])

    def _is_observed(self) -> bool:
        try:
            return "domains" in self.api.get("health")["checks"]
        except AgentUnreachable:
            return False

    def call(self, *arguments: str) -> Any:
        """Call Nova's conductor, or read Nova's database, see `tests.nova.caller`."""
        command = [str(PROGRAMS / "python"), str(CALLER), str(self._config), *arguments]
        return json.loads(_run(command).splitlines()[-1])

    def servers(self) -> dict[str, Any]:
        """What Nova's cells have of each server, by name."""
        return {each["name"]: each for each in self.call("servers")}

    def _manage(self, *arguments: str) -> None:
        _run([str(PROGRAMS / "nova-manage"), "--config-file", str(self._config), *arguments])


def _run(command: Sequence[str]) -> str:
    done = subprocess.run(
        command,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout
