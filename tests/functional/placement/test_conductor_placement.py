"""The allocations that a conductor writes itself, in a real Placement."""

from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from rtagent.conductor.errors import OperationTaken
from rtagent.conductor.operations import allocations
from rtagent.conductor.patience import Patience
from rtagent.conductor.run import ConductorOptions, Outside, Progress, Run
from rtagent.embedded import SystemClock
from rtagent.errors import PlacementConflict
from rtagent.model.request import Flavor
from rtagent.model.server import RequestSpec, Server, ServerOperation
from rtagent.placement.loading import ConductorPlacement
from tests.functional.placement.conftest import PATIENCE
from tests.support.hosts import uid
from tests.support.stores import MemoryServerStore

SPEC = RequestSpec(flavor=Flavor(vcpus=1, memory_mb=512, root_gb=1), project_id="p")


class Writers:
    """Conductors that work on one operation, one after the other."""

    def __init__(self, node):
        node.start().sync_now(PATIENCE)
        self.node, self.store, self.server = node, MemoryServerStore(), uid()
        now, common = datetime.now(UTC), {"uuid": uid(), "kind": "resize", "step": "select"}
        server = Server(
            uuid=self.server,
            name="web",
            spec=SPEC,
            vm_state="active",
            created_at=now,
            updated_at=now,
        )
        operation = ServerOperation(
            **common,
            server_uuid=self.server,
            created_at=now,
            updated_at=now,
            progress=Progress(spec=SPEC, was="active").document(),
            owner="first",
        )
        self.store.begin(operation, server, None)
        self.run = self._run(operation)

    def _run(self, operation):
        nothing = SimpleNamespace()
        port, clock = ConductorPlacement(self.node.client), SystemClock()
        outside = Outside(
            scheduler=nothing, agents=nothing, enactor=nothing, hooks=nothing, allocations=port
        )
        patience = Patience(clock, lambda seconds: None, clock.monotonic() + 60)
        server = self.store.server(self.server)
        return Run(operation, server, outside, ConductorOptions(), patience, self.store, clock)

    def taken_over(self):
        """Return the run of the next conductor."""
        [operation] = self.store.operations(running=True)
        return self._run(self.store.take(operation, uid()))

    def candidate(self, vcpus):
        made = {self.node.uuid: {"resources": {"VCPU": vcpus, "MEMORY_MB": 512}}}
        return {"allocations": made, "mappings": {"": [self.node.uuid]}}

    def consumer(self, uuid):
        return self.node.server.client("1.38").get(f"/allocations/{uuid}").json()

    def vcpus(self, *consumers):
        """Return the vCPUs that consumers have."""
        found = [self.consumer(each)["allocations"].values() for each in consumers]
        return [sum(part["resources"]["VCPU"] for part in parts) for parts in found]


@pytest.fixture
def writers(node):
    return Writers(node)


def test_allocations_are_written_given_to_a_migration_and_back_and_deleted(writers):
    run, server, migration = writers.run, writers.server, uid()
    for number in (1, 2, 2):
        allocations.write(run, writers.candidate(number))
        assert writers.vcpus(server) == [number]
    for _ in range(2):  # the answer may have been lost
        allocations.give(run, server, migration)
        assert writers.vcpus(server, migration) == [0, 2]
    shown = writers.consumer(migration)
    assert (shown["consumer_type"], shown["project_id"]) == ("MIGRATION", "p")

    allocations.write(run, writers.candidate(1))
    for _ in range(2):
        allocations.give(run, migration, server)
        assert writers.vcpus(server, migration) == [2, 0]
    assert allocations.of(run) == writers.candidate(2)["allocations"]
    for _ in range(2):
        allocations.delete(run, server)
        assert writers.vcpus(server) == [0]


def test_a_late_delete_does_not_reach_what_was_allocated_anew(writers):
    """Placement counts the generations of a consumer anew after it had nothing."""
    allocations.write(writers.run, writers.candidate(1))
    generation = writers.consumer(writers.server)["consumer_generation"]
    writers.run.learn(consumer_generation=generation)
    writers.run.save()  # it decides to delete them, and is suspended
    late = writers.run.allocations
    other = writers.taken_over()
    allocations.delete(other, writers.server)
    allocations.write(other, writers.candidate(2))
    content = {"allocations": {}, "project_id": "p", "user_id": "p", "consumer_type": "INSTANCE"}
    with pytest.raises(PlacementConflict):
        late.write({writers.server: {**content, "consumer_generation": generation}})
    assert writers.vcpus(writers.server) == [2]
    with pytest.raises(OperationTaken):
        allocations.delete(writers.run, writers.server)


def test_a_host_without_enough_is_a_conflict(writers):
    with pytest.raises(PlacementConflict):
        allocations.write(writers.run, writers.candidate(10**6))
