"""Host aggregates are aggregates of the hosts' providers in a real Placement."""

import pytest

from rtagent.model.node import Aggregate
from rtagent.placement.aggregate_mirror import AggregateMirror
from rtagent.ports import NullReporter
from rtagent.scheduler.host_state import HostState
from rtagent.service.kept_records import MirroredAggregates
from tests.functional.placement.conftest import MirroredNode
from tests.support.host_states import host_state
from tests.support.hosts import ManualClock, uid


class Mirrored:
    """Three hosts, of which Placement has two, and a scheduler's aggregates."""

    def __init__(self, node: MirroredNode) -> None:
        self.node, self.clock = node, ManualClock()
        self.hosts: tuple[HostState, ...] = tuple(
            host_state(name, uuid=uid()) for name in ("cn1", "cn2", "absent")
        )
        for each in self.hosts[:2]:
            made = {"uuid": each.uuid, "name": f"provider-{each.uuid}"}
            assert node.admin.post("/resource_providers", json=made).ok
        self.known: tuple[Aggregate, ...] = ()
        self.deleted: frozenset[str] = frozenset()
        self.mirrored = MirroredAggregates(
            AggregateMirror(node.client()),
            lambda: self.hosts,
            lambda: self.known,
            lambda: self.deleted,
            self.clock,
            NullReporter(),
        )

    def shown(self, number: int) -> set[str]:
        """Return the aggregates of a host's provider."""
        path = f"/resource_providers/{self.hosts[number].uuid}/aggregates"
        return set(self.node.admin.get(path).json()["aggregates"])

    def add(self, number: int, *aggregates: str) -> None:
        """Add a provider to aggregates, as another client does."""
        path = f"/resource_providers/{self.hosts[number].uuid}/aggregates"
        found = self.node.admin.get(path).json()
        found["aggregates"] += aggregates
        assert self.node.admin.put(path, json=found).ok


@pytest.fixture
def mirrored(node: MirroredNode) -> Mirrored:
    return Mirrored(node)


def test_life_of_an_aggregate(mirrored):
    foreign, ssd, zone = uid(), uid(), uid()
    mirrored.add(0, foreign)
    mirrored.known = (
        Aggregate(uuid=ssd, name="ssd", hosts=("absent", "cn1")),
        Aggregate(uuid=zone, name="zone", hosts=("cn1", "cn2")),
    )
    mirrored.mirrored.turn()
    assert mirrored.shown(0) == {foreign, ssd, zone} and mirrored.shown(1) == {zone}

    mirrored.known, mirrored.deleted = (mirrored.known[1],), frozenset({ssd})
    mirrored.mirrored.turn()
    assert mirrored.shown(0) == {foreign, zone}

    mirrored.known = (Aggregate(uuid=zone, name="zone", hosts=()),)
    mirrored.mirrored.turn()
    assert mirrored.shown(0) == {foreign} and mirrored.shown(1) == set()


def test_scheduler_that_starts_again_removes_what_was_deleted_meanwhile(mirrored):
    deleted, foreign = uid(), uid()
    mirrored.add(1, deleted, foreign)
    mirrored.deleted = frozenset({deleted})
    mirrored.mirrored.turn()
    assert mirrored.shown(1) == {foreign}
