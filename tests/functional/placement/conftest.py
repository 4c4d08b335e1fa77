"""A mirror and a real Placement, shared by the tests of this folder. Each test has its own node."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from keystoneauth1 import adapter, session, token_endpoint
from keystoneauth1.plugin import BaseAuthPlugin
from msgspec.structs import replace

from rtagent.embedded import SystemClock
from rtagent.model.domain_usage import DomainUsage
from rtagent.model.node_state import NodeState
from rtagent.placement import tree
from rtagent.placement.client import HttpPlacement
from rtagent.placement.provider import Ownership, Tree
from tests.servers import Placement
from tests.servers.placement import Request
from tests.support.audited_nodes import RunningMirror
from tests.support.hosts import NODE, TOPOLOGY, host, uid, with_claims

#: Seconds; nothing here takes as long.
PATIENCE = 120.0


def connect(auth: BaseAuthPlugin, timeout: float = PATIENCE) -> HttpPlacement:
    """Return a client of Placement."""
    keystone = session.Session(auth=auth, timeout=timeout)
    return HttpPlacement(adapter.Adapter(keystone, service_type="placement"))


class MirroredNode:
    """One node, its mirror, and Placement as an administrator sees it."""

    def __init__(self, server: Placement, state_path: Path) -> None:
        self.server, self.state_path = server, state_path
        self.uuid = uid()
        self.name = f"node-{self.uuid}"
        self.admin = server.client("1.28")
        node = replace(NODE, uuid=self.uuid, hypervisor_hostname=self.name)
        traits = frozenset({"HW_CPU_X86_AVX", "COMPUTE_TRUSTED_CERTS"})
        self.state: NodeState = replace(
            host(), node=node, topology=replace(TOPOLOGY, traits=traits)
        )
        self.disabled = False
        self.refresh = 0.0
        self.auth: BaseAuthPlugin = token_endpoint.Token(server.url, server.token)
        self.mirrors: list[RunningMirror] = []

    # -- the agent --

    def client(self, timeout: float = PATIENCE) -> HttpPlacement:
        return connect(self.auth, timeout)

    def start(self, timeout: float = PATIENCE) -> RunningMirror:
        """Start a mirror, as a start of the agent does."""
        mirror = RunningMirror(
            self.client(timeout),
            self.wanted,
            Ownership(self.state_path),
            SystemClock(),
            refresh=lambda: self.refresh,
        )
        self.mirrors.append(mirror)
        mirror.start()
        return mirror

    def wanted(self) -> Tree | None:
        return tree.build(self.state, self.disabled, hypervisor_up=True)

    def change(self, **topology: Any) -> None:
        """Replace parts of the topology, with the next revision."""
        changed = replace(self.state.topology or TOPOLOGY, **topology)
        self.state = replace(self.state, revision=self.state.revision + 1, topology=changed)

    def use(self, vcpus: int, memory_mb: int) -> None:
        """Add a foreign domain."""
        domain = DomainUsage(
            domain_uuid=uid(), name="d", active=True, vcpus=vcpus, memory_mb=memory_mb
        )
        self.state = with_claims(self.state, (), (domain,), self.state.revision + 1)

    # -- Placement --

    @property
    def path(self) -> str:
        return f"/resource_providers/{self.uuid}"

    @property
    def exists(self) -> bool:
        return bool(self.admin.get(self.path).status_code == 200)

    def get(self, part: str) -> Any:
        return self.admin.get(f"{self.path}/{part}").json()

    @property
    def traits(self) -> set[str]:
        return set(self.get("traits")["traits"])

    @property
    def inventories(self) -> dict[str, Any]:
        return self.server.inventories(self.uuid)

    def set_traits(self, names: set[str]) -> None:
        """Replace them, as another writer does."""
        for name in names:
            if name.startswith("CUSTOM_"):
                self.admin.put(f"/traits/{name}")
        generation = self.get("traits")["resource_provider_generation"]
        body = {"resource_provider_generation": generation, "traits": sorted(names)}
        assert self.admin.put(f"{self.path}/traits", json=body).status_code == 200

    def set_inventories(self, inventories: dict[str, dict[str, Any]]) -> None:
        """Replace them, as another writer does."""
        generation = self.get("inventories")["resource_provider_generation"]
        body = {"resource_provider_generation": generation, "inventories": inventories}
        assert self.admin.put(f"{self.path}/inventories", json=body).status_code == 200

    def allocate(self, consumer: str, resources: dict[str, int]) -> int:
        """Allocate as a scheduler does ({} removes the consumer); return the HTTP status."""
        if not resources:
            return self.admin.delete(f"/allocations/{consumer}").status_code
        return self.server.allocate(consumer, {self.uuid: resources})

    def requests_of(self, action: Callable[[], object]) -> list[Request]:
        """Return the requests that Placement got during an action."""
        before = len(self.server.requests())
        action()
        return self.server.requests()[before:]


class NodeRecords:
    """What Placement has of the providers of a node."""

    node: MirroredNode

    @property
    def children(self) -> dict[str, str]:
        """The uuids by the end of the name."""
        return {
            each["name"].removeprefix(f"{self.node.name}_"): each["uuid"]
            for each in self.node.server.tree(self.node.uuid)
            if each["parent_provider_uuid"] == self.node.uuid
        }

    def inventories(self, uuid: str) -> dict[str, tuple[int, int]]:
        """Total and reserved quantity, by class."""
        found = self.node.server.inventories(uuid)
        return {name: (each["total"], each["reserved"]) for name, each in found.items()}

    def traits(self, uuid: str) -> set[str]:
        return set(self.node.admin.get(f"/resource_providers/{uuid}/traits").json()["traits"])

    def allocations(self, consumer: str) -> dict[str, dict[str, int]]:
        return self.node.server.allocations(consumer)


@pytest.fixture(scope="module")
def server() -> Iterator[Placement]:
    with Placement() as placement:
        yield placement


@pytest.fixture
def node(server: Placement, tmp_path: Path) -> Iterator[MirroredNode]:
    server.start()
    node = MirroredNode(server, tmp_path)
    yield node
    stopped = [mirror.stop(PATIENCE) for mirror in node.mirrors]
    assert all(stopped)


@pytest.fixture
def bus(request: pytest.FixtureRequest) -> str:
    """The URL of the message bus: by default one inside the daemon."""
    if getattr(request, "param", None) == "rabbitmq":
        return str(request.getfixturevalue("rabbitmq").transport_url)
    return "fake://"
