"""The probe of the RPC server."""

import oslo_messaging
import pytest

from rtagent.rpc.duplicates import MEMORY, AgentIdentity, Duplicates
from rtagent.service.loop import every
from rtagent.service.rpc_service import DUPLICATE_INTERVAL, RpcHealth, RpcProbe
from tests.support.hosts import uid

ME, OTHER = (
    AgentIdentity(agent_uuid=uid(), node_uuid=uid(), node=node) for node in ("this", "other")
)


class Server:
    """The server, and the way to it through the broker.

    :ivar answering: the agents that answer, in turn.
    """

    def __init__(self) -> None:
        self.serves, self.works, self.calls = True, True, 0
        self.answering = [ME]

    def started(self) -> bool:
        return self.serves

    def ping(self) -> dict:
        self.calls += 1
        if not self.works:
            raise oslo_messaging.MessagingTimeout("no answer")
        return pong(self.answering[self.calls % len(self.answering)])


def pong(agent: AgentIdentity | None) -> dict:
    """A reply of ping. :param agent: None: of a version without the identity."""
    if agent is None:
        return {"version": "0", "host": "h", "node": "n"}
    return {"agent_uuid": agent.agent_uuid, "node_uuid": agent.node_uuid, "node": agent.node}


@pytest.fixture
def server():
    return Server()


@pytest.fixture
def duplicates(world):
    return Duplicates(ME, "compute-1", world.clock, world.duplicated)


@pytest.fixture
def health(world, server, duplicates):
    health = RpcHealth(duplicates, server.started, world.notes)
    health.starting = True
    return health


@pytest.fixture
def probe(world, server, duplicates, health):
    return RpcProbe(server, world.settings, duplicates, health)


def test_answered_call_is_a_pass(world, server, probe):
    assert probe.turn() == every(10.0)
    assert world.notes.parts["rpc"] == "pass"


def test_unanswered_call_is_a_failure_until_one_is_answered(world, server, probe):
    server.works = False
    assert probe.turn() == every(10.0)
    assert world.notes.parts["rpc"] == "fail: calls do not reach the server: no answer"

    server.works = True
    probe.turn()
    assert world.notes.parts["rpc"] == "pass"


def test_server_that_has_not_started_is_not_called(world, server, probe):
    server.serves = False
    assert probe.turn() == every(10.0)
    assert (server.calls, world.notes.parts) == (0, {})


@pytest.mark.parametrize(
    ("other", "named"),
    [
        (OTHER, f"the other is node {OTHER.node_uuid} (other)"),
        (None, "an agent of another version"),
    ],
)
def test_an_answer_of_another_agent_is_a_failure_until_it_is_gone(
    world, server, duplicates, probe, other, named
):
    world.admission.open()
    server.answering = [ME, other]
    assert probe.turn() == every(DUPLICATE_INTERVAL)
    assert named in world.notes.parts["rpc"]
    assert world.notes.parts["rpc"].startswith(
        f"fail: two agents serve the host compute-1: this one is node {ME.node_uuid} (this);"
    )
    assert world.admission.why_closed is duplicates.error is not None

    server.answering = [ME]
    world.clock.advance(MEMORY)
    assert probe.turn() == every(10.0)
    assert world.notes.parts["rpc"] == "pass"
    assert world.admission.why_closed is None


def test_an_agent_with_the_host_lock_makes_one_call_in_three_turns(server, health, probe):
    health.locked = True
    calls = []
    for _ in range(7):
        probe.turn()
        calls.append(server.calls)
    assert calls == [1, 1, 1, 2, 2, 2, 3]


def test_without_the_host_lock_each_turn_makes_two_calls(server, health, probe):
    health.locked = True
    probe.turn()
    health.locked = False
    probe.turn()
    assert server.calls == 3
    probe.turn()
    assert server.calls == 5


def test_calls_that_were_not_answered_are_repeated_in_the_next_turn(world, server, health, probe):
    health.locked = True
    server.works = False
    for turns in (1, 2):
        probe.turn()
        assert server.calls == turns
    server.works = True
    probe.turn()
    assert (server.calls, world.notes.parts["rpc"]) == (3, "pass")
