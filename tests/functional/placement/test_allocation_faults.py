"""A fault at each HTTP request of a drain: nothing is lost, nothing is written twice."""

from collections.abc import Iterator

import pytest
from keystoneauth1 import token_endpoint

from rtagent.placement.schedule import LAST_RETRY
from tests.functional.placement.conftest import MirroredNode, connect
from tests.servers.http_relay import Fault, HttpRelay
from tests.support.agents import LARGE, SMALL, facts
from tests.support.allocating_agents import AllocatingAgent, settle
from tests.support.hosts import ManualClock, uid

#: The client's time-out in seconds: longer than any answer, except to a hanging request.
TIMEOUT = 6.0


@pytest.fixture
def relay(node: MirroredNode) -> Iterator[HttpRelay]:
    with HttpRelay(node.server.url) as relay:
        yield relay


class Life:
    """A guest that is built, resized on its host, and deleted."""

    def __init__(self, relay, node):
        api = connect(token_endpoint.Token(relay.url, node.server.token), TIMEOUT)
        self.relay, self.guest, self.move = relay, uid(), facts()
        self.agent = AllocatingAgent(int(uid()[-12:], 16), api, ManualClock())
        self.agent.publish()
        self.agent.outbox.turn()

    def steps(self):
        """Yield after each step that changes allocations."""
        agent, guest, move = self.agent, self.guest, self.move
        claim = agent.run(SMALL, guest)
        yield
        agent.claim_move(move, LARGE, guest)
        yield
        agent.move("start_move_out", move, guest)
        agent.move("finish_move", move, guest)
        agent.move("drop_move_claim_at_source", move, guest)
        yield
        for claim in agent.state.claims_of(guest):
            agent.release(claim)
        yield

    def turn(self):
        """Drain once, and return how many requests that took."""
        before = len(self.relay.seen)
        self.agent.clock.advance(LAST_RETRY)
        self.agent.outbox.turn()
        return len(self.relay.seen) - before


def test_each_change_is_one_request(relay, node):
    life = Life(relay, node)
    writes = []
    for _ in life.steps():
        before = len(relay.seen)
        assert life.turn() == 1
        writes.append(relay.seen[before])
        assert life.agent.found() == life.agent.wanted()
        assert life.turn() == 0
    instance, migration = f"/allocations/{life.guest}", f"/allocations/{life.move.uuid}"
    puts = [("PUT", instance), ("POST", "/allocations"), ("PUT", migration), ("PUT", instance)]
    assert writes == puts


@pytest.mark.parametrize(
    ("fault", "killed"),
    [*((fault, False) for fault in Fault), (Fault.LOST, True), (Fault.UNANSWERED, True)],
)
def test_a_fault_at_each_request_is_overcome(relay, node, fault, killed):
    life = Life(relay, node)
    for _ in life.steps():
        relay.fail(0, fault)
        life.turn()
        if killed:
            life.agent.start()
        settle(life.agent)
        assert life.agent.found() == life.agent.wanted()
        assert life.turn() == 0


@pytest.mark.parametrize("fault", [Fault.LOST, Fault.CONFLICT])
def test_a_fault_at_each_request_after_a_kill_is_overcome(relay, node, fault):
    """The first turn after a start reads the providers' allocations and the consumers."""
    for number in range(4):
        life = Life(relay, node)
        for _ in life.steps():
            life.agent.start()
            relay.fail(number, fault)
            life.turn()
            relay.heal()
            settle(life.agent)
            assert life.agent.found() == life.agent.wanted()
