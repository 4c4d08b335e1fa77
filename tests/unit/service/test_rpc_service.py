"""The probe of the RPC server."""

import oslo_messaging
import pytest

from rtagent.errors import DuplicateHost, NodeNotReady
from rtagent.rpc.claim_endpoint import ClaimChange
from rtagent.rpc.duplicates import MEMORY, AgentIdentity, Duplicates
from rtagent.rpc.host_lock import Attempt, LockOutcome
from rtagent.service.loop import every
from rtagent.service.rpc_service import (
    DUPLICATE_INTERVAL,
    PATIENCE,
    RECONNECT,
    RETRY,
    TRUST,
    HostLockTurns,
    RpcHealth,
    RpcProbe,
)
from tests.support.hosts import uid

NAMES = ("this", "other")
ME, OTHER = (AgentIdentity(agent_uuid=uid(), node_uuid=uid(), node=name) for name in NAMES)


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


def test_unanswered_call_is_a_failure_until_one_is_answered(world, server, probe):
    server.works = False
    assert probe.turn() == every(10.0)
    assert world.notes.texts["rpc"] == "fail: calls do not reach the server: no answer"

    server.works = True
    probe.turn()
    assert world.notes.texts["rpc"] == "pass"


def test_server_that_has_not_started_is_not_called(world, server, probe):
    server.serves = False
    assert probe.turn() == every(10.0)
    assert (server.calls, world.notes.texts) == (0, {})


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
    assert named in world.notes.texts["rpc"]
    assert world.notes.texts["rpc"].startswith(
        f"fail: two agents serve the host compute-1: this one is node {ME.node_uuid} (this);"
    )
    assert world.admission.why_closed is duplicates.error is not None

    server.answering = [ME]
    world.clock.advance(MEMORY)
    assert probe.turn() == every(10.0)
    assert world.notes.texts["rpc"] == "pass"
    assert world.admission.why_closed is None


def test_with_the_host_lock_a_call_is_made_in_three_turns_else_two_in_each(server, health, probe):
    health.locked = True
    calls = []
    for _ in range(7):
        probe.turn()
        calls.append(server.calls)
    assert calls == [1, 1, 1, 2, 2, 2, 3]

    health.locked = False
    for count in (5, 7):
        probe.turn()
        assert server.calls == count


def test_calls_that_were_not_answered_are_repeated_in_the_next_turn(world, server, health, probe):
    health.locked = True
    server.works = False
    for turns in (1, 2):
        probe.turn()
        assert server.calls == turns
    server.works = True
    probe.turn()
    assert (server.calls, world.notes.texts["rpc"]) == (3, "pass")


#: A call for a claim that is not here.
UNKNOWN = ClaimChange(operation_id=uid(), claim_uuid=uid())
HELD = LockOutcome(attempt=Attempt.HELD)
SILENT = LockOutcome(attempt=Attempt.TAKEN)
ANSWERED = LockOutcome(attempt=Attempt.TAKEN, holder=OTHER)
AWAY = LockOutcome(attempt=Attempt.UNREACHABLE, why="connection refused")
REFUSED = LockOutcome(attempt=Attempt.REFUSED, why="no permission")


class Lock:
    """A lock whose attempts have the same outcome until it is changed."""

    def __init__(self) -> None:
        self.outcome, self.held = HELD, False

    def take(self) -> LockOutcome:
        self.held = self.outcome is HELD
        return self.outcome

    def keep(self, seconds: float) -> bool:
        self.held = self.held and self.outcome is HELD
        return self.held


class Site:
    """A keeper with its surroundings. :ivar started: whether the server has started."""

    def __init__(self, world) -> None:
        self.world, self.lock, self.started = world, Lock(), False
        world.admission.open()
        self.duplicates = Duplicates(ME, "h", world.clock, world.duplicated)
        self.health = RpcHealth(self.duplicates, lambda: self.started, world.notes)
        self.turns = HostLockTurns(
            self.lock, self.duplicates, self.health, self._start, world.clock
        )

    def _start(self) -> None:
        self.started = self.health.starting = True

    def turn(self, outcome: LockOutcome):
        self.lock.outcome = outcome
        return self.turns.turn()

    @property
    def rpc(self) -> str:
        return self.world.notes.texts.get("rpc", "")

    def releases(self) -> bool:
        """Whether a release of an unknown claim would be done."""
        try:
            self.duplicates.check(self.world.tracker.snapshot, UNKNOWN)
        except (NodeNotReady, DuplicateHost):
            return False
        return True


@pytest.fixture
def site(world):
    return Site(world)


def test_the_server_starts_with_the_lock(site):
    assert site.turn(HELD) == every(0.0)
    assert (site.started, site.rpc, site.releases()) == (True, "pass", True)
    assert site.turn(HELD) == every(0.0)


def test_the_server_does_not_start_beside_another_agent(site):
    for _ in range(20):
        assert site.turn(ANSWERED) == every(RETRY)
        site.world.clock.advance(RETRY)
    assert not site.started
    assert site.rpc.startswith("fail: two agents serve the host h")
    assert isinstance(site.world.admission.why_closed, DuplicateHost)

    site.turn(HELD)
    assert site.started
    assert not site.releases()
    site.world.clock.advance(MEMORY)
    site.turn(HELD)
    assert site.rpc == "pass"
    assert site.world.admission.why_closed is None
    assert site.releases()


def test_a_holder_that_never_answers_is_awaited_for_some_time(site):
    assert site.turn(SILENT) == every(RETRY)
    assert (site.started, site.rpc.partition(":")[0]) == (False, "warn")
    site.world.clock.advance(PATIENCE)
    site.turn(SILENT)
    assert (site.started, site.rpc.partition(":")[0]) == (True, "warn")
    assert site.releases()


def test_a_broker_that_refuses_the_lock_is_reported(site):
    site.turn(REFUSED)
    assert (site.started, site.releases()) == (True, True)
    assert site.rpc == "warn: the broker refuses the host lock: no permission"


def test_an_agent_that_lost_the_lock_or_stood_still_does_not_answer_for_unknown_claims(site):
    site.turn(HELD)
    site.turn(AWAY)
    assert not site.releases()
    assert site.world.admission.why_closed is None
    site.turn(HELD)
    assert site.releases()

    for _ in range(2):  # after a turn that took the lock, and after one that kept it
        site.world.clock.advance(TRUST)
        assert not site.releases()
        site.turn(HELD)
        assert site.releases()


def test_trust_does_not_come_back_during_a_long_outage_of_the_broker(site):
    site.turn(HELD)
    site.health.probed("")  # before the outage
    site.turn(AWAY)
    site.world.clock.advance(PATIENCE)
    site.turn(AWAY)
    assert not site.releases()
    site.health.probed("calls do not reach the server")
    site.turn(AWAY)
    assert not site.releases()
    site.health.probed("")  # only the lock cannot be taken
    site.turn(AWAY)
    assert site.releases()
    assert site.rpc == "warn: the host lock cannot be taken: connection refused"


def test_a_start_waits_for_the_broker_in_the_server_and_is_not_trusted_before(site):
    """There is no probe yet that could fail."""
    assert site.turn(AWAY) == every(RECONNECT)
    site.world.clock.advance(PATIENCE)
    site.turn(AWAY)
    assert site.started
    assert site.world.admission.why_closed is None
    assert not site.releases()


def test_the_time_without_a_broker_is_not_that_of_a_silent_holder(site):
    site.turn(HELD)
    site.turn(AWAY)
    site.world.clock.advance(PATIENCE)
    site.turn(SILENT)  # the other agent was the first to come back, and is slow
    assert not site.releases()
    site.world.clock.advance(PATIENCE)
    site.turn(SILENT)
    assert site.releases()
