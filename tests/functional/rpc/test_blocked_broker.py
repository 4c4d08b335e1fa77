"""A broker whose memory alarm is raised answers nothing, but sends heartbeats."""

import select
from collections.abc import Iterator
from contextlib import contextmanager

import amqp
import pytest

from rtagent.rpc.amqp_transport import Connection
from tests.servers import RabbitMQ


@contextmanager
def alarm(rabbitmq: RabbitMQ) -> Iterator[None]:
    rabbitmq.alarm(True)
    try:
        yield
    finally:
        rabbitmq.alarm(False)


@contextmanager
def connected(rabbitmq: RabbitMQ) -> Iterator[Connection]:
    connection = Connection(f"127.0.0.1:{rabbitmq.port}", heartbeat=2)
    connection.connect()
    try:
        yield connection
    finally:
        connection.collect()


def test_an_answer_that_arrived_while_the_process_stood_still_is_read(rabbitmq):
    with connected(rabbitmq) as connection:
        confirmed: list[int] = []
        channel = connection.channel()
        channel.confirm_select()
        channel.events["basic_ack"].add(lambda tag, multiple: confirmed.append(tag))
        channel.basic_publish(amqp.Message("body"), routing_key="no.such.queue")
        assert select.select([connection.sock], [], [], 60)[0]
        long_ago = 0.0
        with connection.answering_by(long_ago):
            while not confirmed:
                connection.drain_events()
    assert confirmed == [1]


def test_waiting_for_an_answer_ends_and_a_closed_channel_asks_for_a_new_connection(rabbitmq):
    with alarm(rabbitmq), connected(rabbitmq) as connection:
        channel = connection.channel()
        channel.basic_publish(amqp.Message("body"), routing_key="no.such.queue")
        # No TimeoutError, which oslo.messaging takes for a poll without a message.
        with pytest.raises(ConnectionError):
            channel.close()
        with pytest.raises(amqp.RecoverableConnectionError):
            channel.exchange_declare("exchange", "topic")
