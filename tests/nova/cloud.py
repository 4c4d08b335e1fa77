"""A small cloud: Nova's conductor and scheduler, Neutron, and two hosts, as processes."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.nova.compute_host import PATIENCE, PAUSE, PROGRAMS, ComputeHost, Program
from tests.servers import MariaDB, Neutron, Placement, RabbitMQ
from tests.servers.daemon import wait_until

ROOT = Path(__file__).resolve().parents[2]
#: The image of every server. The hosts' cache has it, so that no image service is needed.
IMAGE = "6a0f6d1c-2f0f-4f0e-9d1c-0d7e35a4a001"
#: Where a service would be that this cloud does not have.
ABSENT = "http://127.0.0.1:1"
#: The hosts, with their CPUs for servers.
HOSTS: Mapping[str, str] = {
    "compute1": "cpu_shared_set = 0\ncpu_dedicated_set = 1",
    "compute2": "cpu_dedicated_set = 0-1",
}

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
live_migration_uri = qemu+unix:///system?socket={directory}/hosts/%s/libvirt-sock
[vnc]
enabled = false
[filter_scheduler]
enabled_filters = ComputeFilter,NUMATopologyFilter
[scheduler]
workers = 1
discover_hosts_in_cells_interval = 2
[conductor]
workers = 1
"""

_HOST = """
[DEFAULT]
host = {host}
state_path = {directory}/{host}
[libvirt]
connection_uri = {libvirt}
[compute]
{cpus}
[nova_sys_admin]
helper_command = {helper}
[privsep_osbrick]
helper_command = {helper}
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


class Cloud:
    """:ivar hosts: by name. They run when the cloud has started.
    :ivar instances: the directory of the servers' disks, which the hosts share.
    """

    def __init__(self, directory: Path, rabbitmq: RabbitMQ, mariadb: MariaDB) -> None:
        self._directory, self.instances = directory, directory / "instances"
        self._placement = Placement()
        self._placement.use(mariadb.create_database())
        self._neutron = Neutron(mariadb.create_database())
        for name in ("locks", "hosts", "instances/_base", "controller", *HOSTS):
            (directory / name).mkdir(parents=True)
        cached = hashlib.sha1(IMAGE.encode(), usedforsecurity=False).hexdigest()
        (directory / "instances/_base" / cached).write_bytes(bytes(2**20))
        self._services = _SERVICES.format(
            transport_url=rabbitmq.transport_url,
            directory=directory,
            placement=self._placement.url,
            neutron=self._neutron.url,
            absent=ABSENT,
        )
        api, self._cell0, cell = (mariadb.create_database() for _ in range(3))
        self._config = directory / "nova.conf"
        controller = _CONTROLLER.format(directory=directory, api=api, cell=cell)
        self._config.write_text(self._services + controller)
        self._others = [
            Program(name, self._config) for name in ("nova-conductor", "nova-scheduler")
        ]
        self.hosts = {name: self._host(name, cpus) for name, cpus in HOSTS.items()}
        self._caller: subprocess.Popen[str] | None = None

    def _host(self, name: str, cpus: str) -> ComputeHost:
        config = self._directory / f"{name}.conf"
        host = ComputeHost(name, config, self._directory / name)
        (self._directory / "hosts" / name).symlink_to(host.libvirtd.directory)
        own = _HOST.format(
            host=name,
            directory=self._directory,
            libvirt=host.libvirtd.uri,
            cpus=cpus,
            helper=f"{PROGRAMS}/privsep-helper --config-file {config}",
        )
        config.write_text(self._services + own)
        return host

    def start(self) -> None:
        """Create the databases, and start everything."""
        with ThreadPoolExecutor() as pool:
            parts = (self._placement.start, self._neutron.start, self._create_cells)
            for started in [pool.submit(each) for each in parts]:
                started.result()
        for program in self._others:
            program.start()
        for host in self.hosts.values():
            host.start()
        self._caller = self._start_caller()
        for host in self.hosts.values():
            host.wait_observed()
        wait_until(self._are_offered, PATIENCE, PAUSE)
        self._manage("cell_v2", "discover_hosts")

    def _create_cells(self) -> None:
        self._manage("api_db", "sync")
        self._manage("cell_v2", "map_cell0", "--database_connection", self._cell0)
        self._manage("db", "sync")
        self._manage("cell_v2", "create_cell", "--name", "cell1")

    def close(self) -> None:
        """Stop everything."""
        if self._caller is not None:
            self._caller.communicate()
        for host in self.hosts.values():
            host.close()
        for server in (*self._others, self._neutron, self._placement):
            server.close()

    def _are_offered(self) -> bool:
        query = "/allocation_candidates?resources=PCPU:1,MEMORY_MB:1"
        found = self._placement.client().get(query).json()
        return len(found["provider_summaries"]) == len(self.hosts)

    def delete_allocations(self) -> None:
        """Delete what Nova leaves in Placement of a migration that has never ended."""
        client = self._placement.client()
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

    def _manage(self, *arguments: str) -> None:
        _run([str(PROGRAMS / "nova-manage"), "--config-file", str(self._config), *arguments])


def _run(command: Sequence[str]) -> None:
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
