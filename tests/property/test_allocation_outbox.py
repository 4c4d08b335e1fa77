"""Random lives of guests on two hosts with one Placement: it gets exactly what the claims have."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from rtagent.errors import PlacementError, PlacementUnavailable
from rtagent.testing.placement import MemoryPlacement
from tests.support import allocating_agents
from tests.support.hosts import ManualClock, uid

#: A provider of another tree, on which another client allocates for the guests.
FOREIGN = uid(799)


class Allocated(allocating_agents.Lives[allocating_agents.AllocatingAgent]):
    @initialize()
    def begin(self):
        self.api, clock = MemoryPlacement(), ManualClock()
        self.hosts = [allocating_agents.AllocatingAgent(n, self.api, clock) for n in (1, 2)]
        for host in self.hosts:
            host.publish()
        self.api.create_provider(FOREIGN, "foreign")
        self.api.put_inventories(FOREIGN, 0, {"VCPU": allocating_agents.RECORD})
        self.foreign = {}
        self.down = False

    @rule(host=allocating_agents.HOSTS, guest=allocating_agents.GUESTS)
    def delete(self, host, guest):
        self.attempt(lambda: self.hosts[host].update("deleted", owner=guest))

    @rule(host=allocating_agents.HOSTS, seconds=st.sampled_from([0, 1, 60]))
    def turn(self, host, seconds):
        self.hosts[host].clock.advance(seconds)
        self.hosts[host].outbox.turn()

    @rule(down=st.booleans())
    def outage(self, down):
        self.down = down
        self.api.failure = PlacementUnavailable("gone") if down else None

    @precondition(lambda self: not self.down)
    @rule(guest=allocating_agents.GUESTS, vcpus=st.integers(1, 3))
    def other_client(self, guest, vcpus):
        """Allocate for the guest on another tree, which changes its generation."""
        now = self.api.consumer(guest)
        parts = {**allocating_agents.resources_of(now), FOREIGN: {"VCPU": vcpus}}
        try:
            self.api.put_consumer(guest, allocating_agents.consumer_content(parts, now))
            self.foreign[guest] = vcpus
        except PlacementError:
            pass

    @invariant()
    def everything_is_written_or_in_the_outbox(self):
        for host in self.hosts:
            assert dict(host.stored.outbox) == dict(host.state.outbox)

    def teardown(self):
        self.api.failure = None
        allocating_agents.settle(*self.hosts)
        for host in self.hosts:
            assert host.found() == host.wanted()
        foreign = allocating_agents.resources_of(self.api.allocations(FOREIGN))
        assert {uuid: part["VCPU"] for uuid, part in foreign.items()} == self.foreign
        requests = len(self.api.requests)
        for host in self.hosts:
            host.outbox.turn()
        assert len(self.api.requests) == requests


TestLives = Allocated.TestCase
TestLives.settings = settings(stateful_step_count=40)
