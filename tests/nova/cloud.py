"""A small cloud: Nova's conductor and scheduler, Neutron, and two hosts, as processes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.nova.compute_host import PROGRAMS, ComputeHost
from tests.nova.control_plane import IMAGE, ControlPlane, cached
from tests.servers import MariaDB, RabbitMQ

#: The hosts, with their CPUs for servers.
HOSTS: Mapping[str, str] = {
    "compute1": "cpu_shared_set = 0\ncpu_dedicated_set = 1",
    "compute2": "cpu_dedicated_set = 0-1",
}

_HOST = """
[DEFAULT]
host = {host}
state_path = {directory}/{host}
[libvirt]
connection_uri = {libvirt}
live_migration_uri = qemu+unix:///system?socket={directory}/hosts/%s/libvirt-sock
[compute]
{cpus}
[nova_sys_admin]
helper_command = {helper}
[privsep_osbrick]
helper_command = {helper}
"""


class Cloud:
    """:ivar hosts: by name. They run when the cloud has started.
    :ivar instances: the directory of the servers' disks, which the hosts share.
    """

    def __init__(self, directory: Path, rabbitmq: RabbitMQ, mariadb: MariaDB) -> None:
        self._directory, self.instances = directory, directory / "instances"
        self._plane = ControlPlane(directory, rabbitmq, mariadb)
        for name in ("hosts", "instances/_base", *HOSTS):
            (directory / name).mkdir(parents=True)
        (directory / "instances/_base" / cached(IMAGE)).write_bytes(bytes(2**20))
        self.hosts = {name: self._host(name, cpus) for name, cpus in HOSTS.items()}

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
        config.write_text(self._plane.endpoints.options(str(self._directory)) + own)
        return host

    def start(self) -> None:
        """Create the databases, and start everything."""
        self._plane.start()
        for host in self.hosts.values():
            host.start()
        for host in self.hosts.values():
            host.wait_observed()
        self._plane.discover(len(self.hosts))

    def close(self) -> None:
        """Stop everything."""
        for host in self.hosts.values():
            host.close()
        self._plane.close()

    def delete_allocations(self) -> None:
        """Delete what Nova leaves in Placement of a migration that has never ended."""
        self._plane.delete_allocations()

    def call(self, *command: Any) -> Any:
        """Do what nova-api does, or read Nova's database, see `tests.nova.caller`."""
        return self._plane.call(*command)
