"""What the user of an agent may not do, and how it is refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import amqp
import oslo_messaging
import pytest
from oslo_context.context import RequestContext

from rtagent.rpc.client import AgentAPI
from tests.functional.broker.conftest import HOSTS
from tests.functional.rpc.raw_messages import EXCHANGE, JSON, envelope, request
from tests.servers.daemon import Daemon, wait_until
from tests.servers.guarded_rabbitmq import GuardedRabbitMQ
from tests.support.trust import Authority

ATTACKER, VICTIM = f"agent-{HOSTS[1]}", f"rtagent.{HOSTS[0]}"
OWN = f"rtagent.{HOSTS[1]}"
HEX = "0123456789abcdef" * 2
FANOUT = f"rtagent_fanout_{HEX}"
REPLIES = f"reply_conductor_{HEX}"


@pytest.fixture(scope="module")
def attacker(broker: GuardedRabbitMQ, agent: Daemon) -> Iterator[amqp.Connection]:
    """The connection of another agent's user, which has queues of its own."""
    connection = broker.connection(ATTACKER)
    connection.connect()
    channel = connection.channel()
    for name in (OWN, FANOUT):
        channel.queue_declare(name, auto_delete=False)
    with broker.connection("conductor") as conductor:
        conductor.channel().queue_declare(REPLIES, auto_delete=False)
    yield connection
    for name in (OWN, FANOUT):
        channel.queue_delete(name)
    connection.close()


def message(**properties: Any) -> amqp.Message:
    """A request without an answer."""
    return amqp.Message(envelope(json.dumps(request())), **{**JSON, **properties})


def publish(exchange: str, key: str) -> Callable[[amqp.Channel], Any]:
    return lambda channel: channel.basic_publish_confirm(message(), exchange, key)


def bind(queue: str, exchange: str, key: str) -> Callable[[amqp.Channel], Any]:
    return lambda channel: channel.queue_bind(queue, exchange, key)


@pytest.mark.parametrize(
    "act",
    [
        pytest.param(lambda channel: channel.basic_consume(VICTIM), id="consume-calls"),
        pytest.param(lambda channel: channel.basic_get(VICTIM), id="get-calls"),
        pytest.param(lambda channel: channel.queue_purge(VICTIM), id="purge-calls"),
        pytest.param(lambda channel: channel.queue_delete(VICTIM), id="delete-queue"),
        pytest.param(lambda channel: channel.queue_declare(VICTIM), id="declare-queue"),
        pytest.param(lambda channel: channel.basic_consume(REPLIES), id="consume-replies"),
        pytest.param(lambda channel: channel.queue_delete(REPLIES), id="delete-replies"),
        pytest.param(lambda channel: channel.basic_get("scheduler"), id="get-selections"),
        pytest.param(lambda channel: channel.basic_get("notifications.info"), id="get-events"),
        pytest.param(
            lambda channel: channel.queue_delete("notifications.info"), id="delete-events"
        ),
        pytest.param(
            lambda channel: channel.queue_declare(f"rtagent_lock.{HOSTS[0]}", exclusive=True),
            id="take-lock",
        ),
        pytest.param(publish(EXCHANGE, VICTIM), id="call"),
        pytest.param(publish(EXCHANGE, "scheduler"), id="call-scheduler"),
        pytest.param(publish(EXCHANGE, f"rtagent_lock.{HOSTS[0]}"), id="pretend-to-be-it"),
        pytest.param(publish("rtagent_fanout", ""), id="call-all"),
        pytest.param(bind(OWN, EXCHANGE, VICTIM), id="bind-to-calls"),
        pytest.param(bind(OWN, EXCHANGE, "#"), id="bind-to-everything"),
        pytest.param(bind(OWN, EXCHANGE, "notifications.info"), id="bind-to-events"),
        pytest.param(bind(OWN, "scheduler_fanout", ""), id="bind-to-reports"),
        pytest.param(bind(VICTIM, EXCHANGE, OWN), id="bind-queue-of-other"),
        pytest.param(
            lambda channel: channel.exchange_bind("scheduler_fanout", EXCHANGE, VICTIM),
            id="bind-exchange",
        ),
        pytest.param(lambda channel: channel.exchange_delete(EXCHANGE), id="delete-exchange"),
        pytest.param(
            lambda channel: channel.exchange_declare("mine", "topic"), id="declare-exchange"
        ),
    ],
)
def test_broker_refuses(attacker: amqp.Connection, act: Callable[[amqp.Channel], Any]):
    with pytest.raises(amqp.AccessRefused, match=ATTACKER):
        act(attacker.channel())


def refused(agent: Daemon) -> float:
    return agent.metrics().get('rtagent_rpc_refused_total{reason="exchange"}', 0)


def test_agent_refuses_what_the_broker_cannot(
    agent: Daemon, attacker: amqp.Connection, conductor: oslo_messaging.RPCTransport
):
    before, channel = refused(agent), attacker.channel()
    channel.basic_publish_confirm(message(), "", VICTIM)
    channel.basic_publish_confirm(message(application_headers={"CC": [VICTIM]}), EXCHANGE, OWN)
    letters = {
        "x-dead-letter-exchange": EXCHANGE,
        "x-dead-letter-routing-key": VICTIM,
        "x-message-ttl": 0,
    }
    name = FANOUT.replace("0", "f")
    channel.queue_declare(name, exclusive=True, arguments=letters)
    channel.basic_publish_confirm(message(), "", name)
    # An exchange of its own may have the name of its queue, and lead to the exchange of calls.
    channel.exchange_declare(OWN, "topic", auto_delete=False)
    try:
        channel.exchange_bind(EXCHANGE, OWN, VICTIM)
        channel.basic_publish_confirm(message(), OWN, VICTIM)
        wait_until(lambda: refused(agent) == before + 4)
    finally:
        channel.exchange_delete(OWN)
    agent.wait_logged("a message was refused: it came by another way")
    api = AgentAPI(conductor, HOSTS[0], timeout=60)
    assert api.ping(RequestContext(overwrite=False))["host"] == HOSTS[0]


@pytest.mark.parametrize(
    "connect",
    [
        lambda broker: broker.connection("operator", certfile=None, keyfile=None),
        lambda broker: with_certificate(broker, broker.authority, expired=True),
        lambda broker: with_certificate(broker, Authority(broker.directory / "b")),
        lambda broker: broker.connection("agent-other"),
        lambda broker: amqp.Connection(f"127.0.0.1:{broker.port}", connect_timeout=10),
    ],
    ids=["no-certificate", "expired", "another-authority", "unknown-user", "no-tls"],
)
def test_broker_accepts_no_other_client(
    broker: GuardedRabbitMQ, connect: Callable[[GuardedRabbitMQ], amqp.Connection]
):
    with with_certificate(broker, broker.authority) as valid:
        assert valid.connected
    connection = connect(broker)
    # The text depends on what the client notices first: the alert, or the end of the connection.
    with pytest.raises((OSError, amqp.AMQPError)):
        connection.connect()
    connection.collect()


def with_certificate(
    broker: GuardedRabbitMQ, authority: Authority, *, expired: bool = False
) -> amqp.Connection:
    """A connection with the name of the operator."""
    cert, key = authority.certificate("operator", expired=expired)
    return broker.connection("operator", certfile=str(cert), keyfile=str(key))
