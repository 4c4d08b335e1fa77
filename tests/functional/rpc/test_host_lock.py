"""The lock of a host name at a real broker."""

from collections.abc import Callable, Iterator

import amqp
import msgspec
import oslo_messaging
import pytest

from rtagent.rpc.broker.connection import Broker
from rtagent.rpc.host_lock import Attempt, HostLock
from tests.functional.rpc.hostile import PROPERTIES
from tests.functional.rpc.raw_messages import RawSender
from tests.servers import RabbitMQ
from tests.servers.daemon import wait_until
from tests.support.hosts import uid
from tests.support.rpc import Contender


class ObservedBroker(Broker):
    """A broker. :ivar connection: the last one."""

    def connect(self, name: str, heartbeat: int = 0) -> amqp.Connection:
        self.connection = super().connect(name, heartbeat)
        return self.connection


@pytest.fixture
def contenders(rabbitmq: RabbitMQ) -> Iterator[Callable[[], Contender]]:
    """Makes agents with one host name."""
    host, made = f"host-{uid()}", list[Contender]()

    def make(url: str = rabbitmq.transport_url) -> Contender:
        made.append(Contender(url, host))
        return made[-1]

    yield make
    for contender in made:
        contender.lock.close()


def test_one_agent_has_the_lock_and_each_learns_of_the_other(contenders):
    first, second = contenders(), contenders()
    assert first.attempt() is Attempt.HELD
    with first.alive():
        wait_until(lambda: second.lock.take().holder == first.me)
        assert second.attempt() is Attempt.TAKEN
    assert set(map(str, first.met)) == {str(second.me)}
    assert not second.lock.held
    first.lock.close()
    wait_until(lambda: second.attempt() is Attempt.HELD)


def test_the_lock_of_a_dead_agent_is_free_after_some_heartbeats(contenders):
    """Its machine has lost power: its connection is still open, but does not answer."""
    dead, successor = contenders(), contenders()
    assert dead.attempt() is Attempt.HELD
    outcome = successor.lock.take()
    assert (outcome.attempt, outcome.holder) == (Attempt.TAKEN, None)
    wait_until(lambda: successor.attempt() is Attempt.HELD)
    # It was only frozen.
    assert not dead.lock.keep(1)
    with successor.alive():
        wait_until(lambda: dead.lock.take().holder == successor.me)
    assert successor.met[-1] == dead.me


def test_each_turn_ends_with_a_heartbeat(rabbitmq: RabbitMQ):
    """So that the broker keeps the lock for as long after a turn as the agent trusts it."""
    host = f"host-{uid()}"
    agent = Contender(rabbitmq.transport_url, host)
    conf = agent.transport.conf
    broker = ObservedBroker(conf, oslo_messaging.TransportURL.parse(conf))
    lock = HostLock(broker, host, agent.me, agent.met.append)
    assert lock.take().attempt is Attempt.HELD
    for _ in range(3):
        before = broker.connection.bytes_sent
        assert lock.keep(0.01)
        assert broker.connection.bytes_sent > before
    lock.close()


def test_the_lock_is_taken_again_after_a_restart_of_the_broker(rabbitmq: RabbitMQ, contenders):
    agent = contenders()
    assert agent.attempt() is Attempt.HELD
    with rabbitmq.outage():
        wait_until(lambda: not agent.lock.keep(0.1))
        assert agent.attempt() is Attempt.UNREACHABLE
    wait_until(lambda: agent.attempt() is Attempt.HELD)


def test_a_user_without_the_permission_does_not_get_the_lock(rabbitmq: RabbitMQ, contenders):
    user = f"restricted-{uid()}"
    rabbitmq.add_user(user, "secret")
    rabbitmq.permit(user, "^$", ".*", ".*")
    agent = contenders(rabbitmq.transport_url.replace("guest:guest", f"{user}:secret"))
    outcome = agent.lock.take()
    assert outcome.attempt is Attempt.REFUSED
    assert "access to queue 'rtagent_lock." in outcome.why
    rabbitmq.permit(user, "^(rtagent_lock|openstack)", ".*", ".*")
    assert agent.attempt() is Attempt.HELD


def test_a_wrong_password_and_a_frozen_broker_are_noticed(rabbitmq: RabbitMQ, contenders):
    outcome = contenders(rabbitmq.transport_url.replace("guest:guest", "guest:wrong")).lock.take()
    assert outcome.attempt is Attempt.UNREACHABLE
    assert "ACCESS_REFUSED" in outcome.why
    rabbitmq.freeze()
    assert contenders().attempt() is Attempt.UNREACHABLE
    rabbitmq.thaw()


def test_messages_that_anybody_sends_do_not_cost_the_lock(rabbitmq: RabbitMQ):
    host = f"host-{uid()}"
    agent, other = (Contender(rabbitmq.transport_url, host) for _ in range(2))
    assert agent.attempt() is Attempt.HELD
    slow = {"content_encoding": "punycode"}
    queue = {"routing_key": f"rtagent_lock.{host}"}
    with RawSender(rabbitmq.port, host) as sender:
        for properties in (slow, *PROPERTIES.values()):
            sender.send(b"-" * 100 + b"a" * 200_000, properties, **queue)
            sender.send(b"{}", properties, **queue)
    with agent.alive():
        wait_until(lambda: other.lock.take().holder == agent.me)
    assert agent.lock.held
    for each in (agent, other):
        each.lock.close()


def test_an_identity_that_needs_no_more_than_a_reply_is_ignored(rabbitmq: RabbitMQ):
    """Otherwise every agent could stop the granting of claims by any other one."""
    host = f"host-{uid()}"
    agent, other, forged = (Contender(rabbitmq.transport_url, host) for _ in range(3))
    assert agent.attempt() is Attempt.HELD
    with RawSender(rabbitmq.port, host) as sender:
        identity = msgspec.json.encode(forged.me)
        sender.send(identity, exchange="", routing_key=f"rtagent_lock.{host}")
    with agent.alive():
        wait_until(lambda: other.lock.take().holder == agent.me)
    assert set(map(str, agent.met)) == {str(other.me)}
    for each in (agent, other):
        each.lock.close()
