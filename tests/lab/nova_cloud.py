"""Lab hosts that Nova serves, under its conductor and scheduler, which run on this machine."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from lab import image, nova_environment
from tests.lab.nova_host import ALIAS, NovaHost
from tests.nova.control_plane import ControlPlane
from tests.servers import MariaDB, RabbitMQ

T = TypeVar("T")

# The scheduler looks at no rows of devices and cells, so that the claim refuses what does not fit.
_OPTIONS = f"""{ALIAS}
[filter_scheduler]
enabled_filters = ComputeFilter
"""


class NovaCloud:
    """:ivar hosts: by name. They run when the cloud has started."""

    def __init__(
        self, directory: Path, rabbitmq: RabbitMQ, mariadb: MariaDB, names: tuple[str, ...]
    ) -> None:
        """:param names: of the hosts."""
        disk, environment = image.build(), nova_environment.build()
        self._plane = plane = ControlPlane(directory, rabbitmq, mariadb, _OPTIONS)
        self.hosts = {
            name: NovaHost(name, disk, environment, rabbitmq, plane.placement, plane.neutron)
            for name in names
        }

    def start(self) -> None:
        """Boot the hosts, and start everything."""
        for host in self.hosts.values():
            host.host.launch()
        self._plane.start()
        for step in (NovaHost.install, NovaHost.start):
            at_once(step, self.hosts)
        self._plane.discover(len(self.hosts))

    def close(self) -> None:
        """Stop everything."""
        at_once(NovaHost.close, self.hosts)
        self._plane.close()

    def call(self, *command: Any) -> Any:
        """Do what nova-api does, or read Nova's database, see `tests.nova.caller`."""
        return self._plane.call(*command)

    def delete_allocations(self) -> None:
        """Delete what Nova leaves in Placement of a migration that has never ended."""
        self._plane.delete_allocations()

    def suspend_domains(self) -> None:
        """Let the vCPUs of all domains stand still."""
        for host in self.hosts.values():
            if host.host.running:
                host.suspend_domains()


def at_once(step: Callable[[NovaHost], T], hosts: Mapping[str, NovaHost]) -> dict[str, T]:
    """Take a step on each of these hosts, and return the results by name."""
    with ThreadPoolExecutor() as pool:
        done = {name: pool.submit(step, host) for name, host in hosts.items()}
        return {name: each.result() for name, each in done.items()}
