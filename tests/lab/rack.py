"""Rack of lab hosts: each test gets a host of the profile that it needs."""

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any

import rtagent.rpc  # noqa: F401  before oslo.messaging, for which it chooses threads

# isort: split
from oslo_context.context import RequestContext

from lab import agent
from lab.host import Config, Host
from lab.image import Image
from lab.profile import PROFILES, Profile
from rtagent.rpc.client import AgentAPI
from tests.servers import RabbitMQ
from tests.support.workload.deployment import open_transport

#: Seconds for one call, and until a condition must hold. Everything takes long on emulated hosts.
CALL, PATIENCE = 120.0, 600.0

CONTEXT = RequestContext(user_id="conductor", roles=["operator"], overwrite=False)
FLAVOR: dict[str, object] = {"vcpus": 2, "memory_mb": 128, "root_gb": 0}

_CLEAR = """
for domain in $(virsh list --name); do virsh destroy $domain; done
for cpu in /sys/devices/system/cpu/cpu*/online; do echo 1 > $cpu; done
"""


def wait_until(holds: Callable[[], bool]) -> None:
    """Wait until a condition holds, with long pauses. :raises TimeoutError: it does not."""
    deadline = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError("what was waited for did not come to be")
        time.sleep(1.0)


class Served(Host):
    """A lab host with a client of its agent.

    :ivar api: over the broker.
    """

    def __init__(
        self, hostname: str, profile: Profile, image: Image, rabbitmq: RabbitMQ, config: Config
    ) -> None:
        super().__init__(hostname, profile, image, rabbitmq.port, config)
        self._transport = open_transport(rabbitmq.transport_url)
        self.api = AgentAPI(self._transport, hostname, timeout=CALL)

    def read(self, path: str) -> Any:
        """Return a document of the read API."""
        return json.loads(agent.get(self, path))

    def claim(self, owner: str, devices: str = "", **extra_specs: str) -> dict[str, Any]:
        """Make a claim of `FLAVOR`; extra specs are without their ``hw:``.

        :param devices: aliases with their numbers.
        """
        specs = {f"hw:{name}": value for name, value in extra_specs.items()}
        if devices:
            specs["pci_passthrough:alias"] = devices
        flavor = {**FLAVOR, "extra_specs": specs}
        return self.api.instance_claim(CONTEXT, {"uuid": owner, "flavor": flavor})

    def claims(self) -> list[dict[str, Any]]:
        """Return all live claims."""
        return list(self.api.get_claims_for_host(CONTEXT)["claims"])

    def node(self) -> dict[str, Any]:
        """Return the node's record."""
        return dict(self.api.get_node(CONTEXT)["node"])

    def uses(self) -> dict[int, str]:
        """Return the use of each CPU."""
        (seen,) = self.read("/numa")["numa"]
        cores = [core for cell in seen["cells"] for core in cell["cores"]]
        return {cpu["id"]: cpu["use"] for core in cores for cpu in core}

    def audit(self) -> str:
        """Run an audit; return its summary."""
        return str(self.api.update_available_resource(CONTEXT)["sentence"])

    # -- the service ------------------------------------------------------------------------------

    def unit(self, name: str) -> str:
        """Return a property of the unit, such as ``MainPID``."""
        return self.output("systemctl", "show", "rtagent", "--value", "-p", name).strip()

    def journal(self) -> str:
        """Return the journal of the unit, with systemd's messages about it, since the boot."""
        return self.output("journalctl", "--no-pager", "--output=cat", "--unit=rtagent")

    @contextlib.contextmanager
    def file(self, path: str, contents: str) -> Iterator[None]:
        """Write a file that the agent can read, for the length of the block."""
        self.output("install", "-D", "-m", "644", "/dev/stdin", path, given=contents)
        try:
            yield
        finally:
            self.output("rm", path)

    def configured(self, group: str, **options: object) -> AbstractContextManager[None]:
        """Override options of the host, from the agent's next start or reload on."""
        lines = "".join(f"{name} = {value}\n" for name, value in options.items())
        return self.file("/etc/rtagent/rtagent.conf.d/test.conf", f"[{group}]\n{lines}")

    def clear(self) -> None:
        """Start the host if needed; put all CPUs online and remove domains and claims."""
        self.start()
        self.output("sh", "-c", _CLEAR)
        self.wait_served()
        for claim in self.claims():
            self.api.release_claim(CONTEXT, claim["uuid"])
        self.audit()

    def close(self) -> None:
        self._transport.cleanup()
        super().close()


class Rack:
    """Holds the hosts of one profile; a request for another profile removes them.

    :param name: what sets its hosts' names apart from those of another rack.
    :param image: of the checkout that is tested.
    """

    def __init__(self, name: str, image: Image, rabbitmq: RabbitMQ) -> None:
        self._name, self._image, self._rabbitmq = name, image, rabbitmq
        self._hosts: list[Served] = []
        self._config: Config = {}

    def host(self, profile: str) -> Served:
        """Return a ready host of that profile, cleared."""
        return self.hosts(profile, 1)[0]

    def hosts(self, profile: str, number: int) -> list[Served]:
        """Return so many hosts with a database each."""
        if self._config or any(PROFILES[profile] != host.profile for host in self._hosts):
            self.close()
        while len(self._hosts) < number:
            self._add(profile, {})
        asked = self._hosts[:number]
        with ThreadPoolExecutor(number) as threads:
            list(threads.map(Served.clear, asked))
        return asked

    def fresh(self, profile: str, config: Config) -> Served:
        """Return a newly created host. :param config: options added to those of the profile."""
        self.close()
        self._config = config
        host = self._add(profile, config)
        host.start().wait_served()
        return host

    def close(self) -> None:
        for host in self._hosts:
            host.close()
        self._hosts, self._config = [], {}

    def _add(self, profile: str, config: Config) -> Served:
        name = f"{self._name}-{profile}-{len(self._hosts) + 1}"
        self._hosts.append(Served(name, PROFILES[profile], self._image, self._rabbitmq, config))
        return self._hosts[-1]
