"""A mirror before a real Placement, which the tests of this folder share: each has its own node."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from keystoneauth1 import adapter, session, token_endpoint
from keystoneauth1.plugin import BaseAuthPlugin
from msgspec.structs import replace

from rtagent.clock import SystemClock
from rtagent.model.holding import Holding
from rtagent.model.host import HostState, restore
from rtagent.placement import tree
from rtagent.placement.client import HttpPlacement
from rtagent.placement.mirror import PlacementMirror
from rtagent.placement.ownership import OwnershipFile
from rtagent.placement.provider import Tree
from tests.builders import NODE, TOPOLOGY, host, uid
from tests.servers import Placement
from tests.servers.placement import Request

#: Seconds; nothing here takes that long.
PATIENCE = 60.0


class World:
    """One node, its mirror, and Placement as an administrator sees it."""

    def __init__(self, server: Placement, state_path: Path) -> None:
        self.server, self.state_path = server, state_path
        self.uuid = uid()
        self.name = f"node-{self.uuid}"
        self.admin = server.client("1.28")
        node = replace(NODE, uuid=self.uuid, hypervisor_hostname=self.name)
        traits = frozenset({"HW_CPU_X86_AVX", "COMPUTE_TRUSTED_CERTS"})
        self.state: HostState = replace(
            host(), node=node, topology=replace(TOPOLOGY, traits=traits)
        )
        self.disabled = False
        self.refresh = 0.0
        self.auth: BaseAuthPlugin = token_endpoint.Token(server.url, server.token)
        self.mirrors: list[PlacementMirror] = []

    # -- our side --

    def client(self, timeout: float = PATIENCE) -> HttpPlacement:
        keystone = session.Session(auth=self.auth, timeout=timeout)
        return HttpPlacement(adapter.Adapter(keystone, service_type="placement"))

    def start(self, timeout: float = PATIENCE) -> PlacementMirror:
        """A mirror, as after a start of the agent."""
        mirror = PlacementMirror(
            self.client(timeout),
            self.wanted,
            OwnershipFile(self.state_path),
            SystemClock(),
            refresh=lambda: self.refresh,
        )
        self.mirrors.append(mirror)
        mirror.start()
        return mirror

    def wanted(self) -> Tree | None:
        return tree.build(self.state, self.disabled, hypervisor_up=True)

    def change(self, **topology: Any) -> None:
        """The host is another one, a revision on."""
        changed = replace(self.state.topology or TOPOLOGY, **topology)
        self.state = replace(self.state, revision=self.state.revision + 1, topology=changed)

    def use(self, vcpus: int, memory_mb: int) -> None:
        """A domain that nobody claimed."""
        domain = Holding(domain_uuid=uid(), name="d", active=True, vcpus=vcpus, memory_mb=memory_mb)
        self.state = restore(self.state, (), (domain,), self.state.revision + 1)

    # -- Placement's --

    @property
    def path(self) -> str:
        return f"/resource_providers/{self.uuid}"

    def get(self, part: str) -> Any:
        return self.admin.get(f"{self.path}/{part}").json()

    @property
    def traits(self) -> set[str]:
        return set(self.get("traits")["traits"])

    @property
    def inventories(self) -> dict[str, Any]:
        found: dict[str, Any] = self.get("inventories")["inventories"]
        return found

    def set_traits(self, names: set[str]) -> None:
        """As another writer does."""
        for name in names:
            if name.startswith("CUSTOM_"):
                self.admin.put(f"/traits/{name}")
        generation = self.get("traits")["resource_provider_generation"]
        body = {"resource_provider_generation": generation, "traits": sorted(names)}
        assert self.admin.put(f"{self.path}/traits", json=body).status_code == 200

    def set_inventories(self, inventories: dict[str, dict[str, Any]]) -> None:
        """As another writer does."""
        generation = self.get("inventories")["resource_provider_generation"]
        body = {"resource_provider_generation": generation, "inventories": inventories}
        assert self.admin.put(f"{self.path}/inventories", json=body).status_code == 200

    def allocate(self, consumer: str, resources: dict[str, int]) -> int:
        """As a scheduler does ({}: the consumer is gone); the status of the answer."""
        if not resources:
            return self.admin.delete(f"/allocations/{consumer}").status_code
        body = {
            "allocations": {self.uuid: {"resources": resources}},
            "project_id": "p",
            "user_id": "u",
            "consumer_generation": None,
        }
        return self.admin.put(f"/allocations/{consumer}", json=body).status_code

    def requests_of(self, action: Callable[[], object]) -> list[Request]:
        """What Placement was asked while something was done."""
        before = len(self.server.requests())
        action()
        return self.server.requests()[before:]

    def eventually(self, true: Callable[[], bool]) -> bool:
        """Whether it becomes true by itself."""
        deadline = time.monotonic() + PATIENCE
        while not (holds := true()) and time.monotonic() < deadline:
            time.sleep(0.05)
        return holds


@pytest.fixture(scope="module")
def server() -> Iterator[Placement]:
    with Placement() as placement:
        yield placement


@pytest.fixture
def world(server: Placement, tmp_path: Path) -> Iterator[World]:
    server.start()
    world = World(server, tmp_path)
    yield world
    stopped = [mirror.stop(PATIENCE) for mirror in world.mirrors]
    assert all(stopped)
