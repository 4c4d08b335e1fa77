"""Claims and the mirror: neither waits for the other."""

from collections.abc import Iterator

import pytest

from rtagent.audit import Auditor
from rtagent.claims import instance_claim, release_claim
from rtagent.embedded import SystemClock
from rtagent.model.observation import Domain
from rtagent.placement import tree
from rtagent.placement.provider import Ownership, Tree
from rtagent.testing.hypervisor import FakeHypervisor
from rtagent.testing.memory_store import MemoryStore
from rtagent.tracker import ResourceTracker
from tests.functional.placement.conftest import PATIENCE, MirroredNode
from tests.servers.daemon import wait_until
from tests.support.audited_nodes import RunningMirror
from tests.support.hosts import NODE, TOPOLOGY, call, request, uid
from tests.support.trackers import enroll


class Agent:
    """A tracker, an auditor and a mirror, assembled as in the service."""

    def __init__(self, node: MirroredNode) -> None:
        clock = SystemClock()
        store = MemoryStore()
        self.host = FakeHypervisor(TOPOLOGY)
        self.tracker = ResourceTracker(store, clock, enroll(store))
        self.auditor = Auditor(self.tracker, self.host, clock)
        self.mirror = RunningMirror(node.client(timeout=2), self.wanted, Ownership(), clock)
        self.tracker.listen(self.mirror.listener)
        self.auditor.run("start")

    def wanted(self) -> Tree | None:
        return tree.build(self.tracker.snapshot(), disabled=False, hypervisor_up=True)

    def claims(self, number: int) -> None:
        """Grant and release so many claims. A refusal raises."""
        for _ in range(number):
            claim = self.tracker.create(instance_claim, call(), request(1, 64))
            self.tracker.execute(release_claim, call("release_claim"), claim.uuid)

    def add_domain(self, vcpus: int = 2) -> None:
        """Add a foreign domain, and audit."""
        domain = Domain(uuid=uid(), name="d", active=True, vcpus=vcpus, memory_mb=2048)
        self.host.domains[domain.uuid] = domain
        self.auditor.run("event")

    def synced(self) -> bool:
        return self.mirror.wait_synced(self.tracker.snapshot().revision, PATIENCE)


@pytest.fixture
def agent(node: MirroredNode) -> Iterator[Agent]:
    node.uuid = NODE.uuid
    agent = Agent(node)
    agent.mirror.start()
    assert agent.synced()
    yield agent
    assert agent.mirror.stop(PATIENCE)


def test_claims_cause_no_requests_to_placement(node, agent):
    assert node.requests_of(lambda: (agent.claims(50), agent.synced())) == []


def test_the_allocation_of_an_earlier_claim_is_accepted_on_a_host_that_others_fill(node, agent):
    claim = agent.tracker.create(instance_claim, call(), request(3, 64))
    agent.add_domain(vcpus=8)
    wait_until(lambda: node.inventories["VCPU"]["reserved"] == 5)
    assert node.allocate(claim.owner_id, {"VCPU": 3, "MEMORY_MB": 64}) == 204


@pytest.mark.parametrize("kind", ["stopped", "hanging"])
def test_claims_are_served_while_placement_is_away(node, agent, kind):
    """The mirror waits for a hanging Placement; claims do not wait for the mirror."""
    interrupt, resume = (
        (node.server.stop, node.server.start)
        if kind == "stopped"
        else (node.server.freeze, node.server.thaw)
    )
    interrupt()
    try:
        agent.add_domain()
        agent.claims(200)
        wait_until(lambda: agent.mirror.error is not None)
        agent.claims(200)
        assert agent.mirror.seconds_behind > 0
        assert agent.mirror.revision < agent.tracker.snapshot().revision
    finally:
        resume()
    assert agent.synced()
    wanted = agent.wanted()
    assert wanted is not None
    reserved = wanted.providers[0].inventories["VCPU"].reserved
    assert node.inventories["VCPU"]["reserved"] == reserved == 2
