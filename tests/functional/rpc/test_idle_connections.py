"""The connections of an idle agent wait for messages without a pause, and can be stopped."""

from __future__ import annotations

import resource
import threading
import time
from collections.abc import Callable

from oslo_messaging._drivers.common import PURPOSE_LISTEN, Timeout

from tests.functional.rpc.conftest import Station
from tests.servers import RabbitMQ

#: The interval of heartbeats, and so much of it that passes between two looks at them.
HEARTBEAT, WAIT = 60, 10


def switches() -> int:
    """Return how often threads of this process have waited."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw


def test_idle_server_does_not_poll(rabbitmq: RabbitMQ, station_on: Callable[..., Station]):
    station = station_on(rabbitmq.transport_url)
    station.server.start()
    assert station.server.wait_started(120)
    client = station.client()
    client.ping(station.context)
    before = switches()
    time.sleep(WAIT / 2)
    assert switches() - before < 40  # one that polls makes a hundred
    client.ping(station.context)


def test_idle_server_stops_at_once(rabbitmq: RabbitMQ, station_on: Callable[..., Station]):
    station = station_on(rabbitmq.transport_url)
    station.server.start()
    assert station.server.wait_started(120)
    station.client().ping(station.context)
    began = time.monotonic()
    assert station.server.stop(30)
    assert time.monotonic() - began < WAIT


def test_connection_waits_until_a_heartbeat_is_due(
    rabbitmq: RabbitMQ, station_on: Callable[..., Station]
):
    station = station_on(rabbitmq.transport_url, {"heartbeat_timeout_threshold": 6})
    driver = station.transport()._driver
    with driver._get_connection(PURPOSE_LISTEN) as connection:
        began = time.monotonic()
        try:
            connection.consume(timeout=0.001)
        except Timeout:
            assert time.monotonic() - began >= 6 / 3 / 2
        else:
            raise AssertionError("there is no message")


def test_a_wait_for_messages_can_be_ended(rabbitmq: RabbitMQ, station_on: Callable[..., Station]):
    station = station_on(rabbitmq.transport_url, {"heartbeat_timeout_threshold": HEARTBEAT})
    with station.transport()._driver._get_connection(PURPOSE_LISTEN) as connection:
        waiting = threading.Thread(target=connection.consume, args=(0.001,))
        waiting.start()
        waiting.join(0.2)
        assert waiting.is_alive()
        connection.stop_consuming()
        waiting.join(WAIT / 2)
        assert not waiting.is_alive()
