"""Claims beside the mirror: they cost Placement nothing, and Placement costs them nothing."""

from collections.abc import Iterator

import pytest

from rtagent.audit import Auditor
from rtagent.clock import SystemClock
from rtagent.db.memory import MemoryStore
from rtagent.model.observation import Domain
from rtagent.placement import tree
from rtagent.placement.mirror import PlacementMirror
from rtagent.placement.ownership import MemoryOwnership
from rtagent.placement.provider import Tree
from rtagent.tracker import ResourceTracker
from rtagent.virt.fake import FakeHypervisor
from tests.builders import NODE, TOPOLOGY, call, request, uid
from tests.functional.placement.conftest import PATIENCE, World
from tests.unit.test_kernel import enroll


class Agent:
    """A tracker, an audit and a mirror, put together as a service does."""

    def __init__(self, world: World) -> None:
        clock = SystemClock()
        store = MemoryStore()
        self.host = FakeHypervisor(TOPOLOGY)
        self.tracker = ResourceTracker(store, clock, enroll(store))
        self.auditor = Auditor(self.tracker, self.host, clock)
        self.mirror = PlacementMirror(
            world.client(timeout=0.3), self.wanted, MemoryOwnership(), clock
        )
        self.tracker.listen(self.mirror.listener)
        self.auditor.run("start")

    def wanted(self) -> Tree | None:
        return tree.build(self.tracker.snapshot(), disabled=False, hypervisor_up=True)

    def claims(self, number: int) -> None:
        """Grant and release so many; each raises if it is not granted."""
        for _ in range(number):
            asked = request(1, 64)
            claim = self.tracker.instance_claim(asked, call(operation_id=asked.claim_uuid))
            self.tracker.release_claim(claim.uuid, call("release_claim"))

    def appear(self) -> None:
        """A domain that nobody claimed is here, and seen."""
        domain = Domain(uuid=uid(), name="d", active=True, vcpus=2, memory_mb=2048)
        self.host.domains[domain.uuid] = domain
        self.auditor.run("event")

    def synced(self) -> bool:
        return self.mirror.wait_synced(self.tracker.snapshot().revision, PATIENCE)


@pytest.fixture
def agent(world: World) -> Iterator[Agent]:
    world.uuid = NODE.uuid
    agent = Agent(world)
    agent.mirror.start()
    assert agent.synced()
    yield agent
    assert agent.mirror.stop(PATIENCE)


def test_claims_ask_nothing_of_placement(world, agent):
    assert world.requests_of(lambda: (agent.claims(50), agent.synced())) == []


def test_what_an_audit_finds_reaches_placement_by_itself(world, agent):
    reserved = world.inventories["MEMORY_MB"]["reserved"]
    agent.appear()
    assert world.eventually(lambda: world.inventories["MEMORY_MB"]["reserved"] == reserved + 2048)


@pytest.mark.parametrize("kind", ["stopped", "hanging"])
def test_claims_go_on_without_placement(world, agent, kind):
    """The clients of a Placement that hangs wait for its answer; claims do not wait for them."""
    out, back = (
        (world.server.stop, world.server.start)
        if kind == "stopped"
        else (world.server.freeze, world.server.thaw)
    )
    out()
    try:
        agent.appear()
        agent.claims(200)
        assert world.eventually(lambda: agent.mirror.error is not None)
        agent.claims(200)
        assert agent.mirror.seconds_behind > 0
        assert agent.mirror.revision < agent.tracker.snapshot().revision
    finally:
        back()
    assert agent.synced()
    wanted = agent.wanted()
    assert wanted is not None
    reserved = wanted.providers[0].inventories["VCPU"].reserved
    assert world.inventories["VCPU"]["reserved"] == reserved == 2
